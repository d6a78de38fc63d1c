"""An EKS cluster that is ready for jobs, but for the nodes that they run on."""

from __future__ import annotations

from constructs import Construct

from stacks.constructs.cluster_stage import cluster_stage
from stacks.constructs.control_plane import ControlPlane
from stacks.constructs.job_role import job_role
from stacks.constructs.people import let_people_in
from stacks.foundation import Foundation
from trainway.manifests.namespace import namespaces


class Kubernetes(Construct):
    """The control plane, the teams' namespaces and their IAM role, and the stage that installs charts and manifests."""

    def __init__(self, scope: Construct, id: str, *, foundation: Foundation) -> None:
        super().__init__(scope, id)
        platform = foundation.platform
        self.control_plane = ControlPlane(
            self,
            "ControlPlane",
            platform=platform,
            catalogue=foundation.catalogue,
            subnet_ids=foundation.network.cluster_subnet_ids,
            service_cidr=foundation.network.service_cidr,
        )
        self.namespaces = namespaces(platform)
        job_role(
            self,
            "Job",
            bucket=foundation.storage.bucket,
            control_plane=self.control_plane,
            namespaces=self.namespaces,
        )
        let_people_in(self, platform=platform, control_plane=self.control_plane, bucket=foundation.storage.bucket)
        self.charts = cluster_stage(
            self,
            control_plane=self.control_plane,
            storage=foundation.storage,
            image=foundation.image,
            network=foundation.network,
        )
