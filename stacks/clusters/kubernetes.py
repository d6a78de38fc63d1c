"""The parts of an EKS cluster that jobs require, except the nodes they run on."""

from __future__ import annotations

from constructs import Construct

from stacks.clusters.cluster_stage import cluster_stage
from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.eks.job_role import job_roles
from stacks.constructs.eks.people import let_people_in
from stacks.foundation import Foundation
from trainway.manifests.namespace import namespaces


class KubernetesAccess(Construct):
    """The jobs' IAM role in each namespace, people's roles, and the stage that installs charts and manifests.

    The stage can administer the cluster once `let_in` exists.
    """

    def __init__(self, scope: Construct, id: str, *, foundation: Foundation, control_plane: ControlPlane) -> None:
        super().__init__(scope, id)
        platform, bucket = foundation.platform, foundation.storage.bucket
        self.namespaces = namespaces(platform)
        job_roles(
            self, "Job", platform=platform, bucket=bucket, control_plane=control_plane, namespaces=self.namespaces
        )
        self.people = let_people_in(self, platform=platform, control_plane=control_plane, bucket=bucket)
        self.charts = cluster_stage(self, foundation=foundation, control_plane=control_plane)
        self.let_in = control_plane.let_in(self, "Delivery", self.charts.role.role_arn)
