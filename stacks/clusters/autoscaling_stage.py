"""The delivery stage that configures HyperPod's Karpenter with its node groups."""

from __future__ import annotations

from constructs import Construct

from stacks.constructs.delivery.build_stage import BuildMachine, BuildStage, StageInputs
from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.iam.permissions import Permission
from stacks.foundation import Foundation
from trainway.spec.deployment.creation import AUTOSCALING
from trainway.spec.deployment.stage_times import stage_times


def autoscaling_stage(scope: Construct, *, foundation: Foundation, control_plane: ControlPlane) -> BuildStage:
    """Return a stage that waits for Karpenter, which exists some time after the HyperPod cluster."""
    return BuildStage(
        scope,
        "AutoscalingStage",
        platform=control_plane.platform.name,
        name="autoscaling",
        inputs=StageInputs({"CLUSTER_NAME": control_plane.platform.cluster_name}),
        permissions=[Permission(("eks:DescribeCluster",), (control_plane.cluster.arn,))],
        times=stage_times(AUTOSCALING),
        # The cluster's endpoint always answers in this network.
        machine=BuildMachine(network=foundation.network.inside(control_plane.cluster.security_group_id)),
    )
