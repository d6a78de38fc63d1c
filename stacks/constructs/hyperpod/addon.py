"""One EKS add-on of HyperPod."""

from __future__ import annotations

from aws_cdk import aws_eks as eks
from constructs import Construct

from stacks.constructs.eks.control_plane import ControlPlane


def hyperpod_addon(scope: Construct, id: str, control_plane: ControlPlane, name: str) -> eks.CfnAddon:
    """Return the add-on with AWS's name `name`, in the version that is the default when it is created."""
    return eks.CfnAddon(
        scope, id, addon_name=name, cluster_name=control_plane.cluster.name, resolve_conflicts="OVERWRITE"
    )
