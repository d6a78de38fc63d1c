"""The delivery stage that installs charts and manifests in a Kubernetes cluster."""

from __future__ import annotations

from constructs import Construct

from stacks.constructs.delivery.build_stage import BuildMachine, BuildStage, StageInputs
from stacks.constructs.delivery.registry import registry_permissions
from stacks.constructs.delivery.run_ai_secret import run_ai_permissions
from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.iam.permissions import Permission
from stacks.constructs.storage.file_system_identity import file_system_identity
from stacks.constructs.storage.former import former_parameters, read_former
from stacks.foundation import Foundation
from trainway.manifests.training_runtime import image_fact
from trainway.spec.deployment.creation import CHARTS
from trainway.spec.deployment.stage_times import stage_times
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.platform import Platform


def cluster_stage(scope: Construct, *, foundation: Foundation, control_plane: ControlPlane) -> BuildStage:
    """Return a stage that reads the mirror and works in the cluster, whose system nodes exist by then."""
    registry, lustre, platform = foundation.registry, foundation.file_system.lustre, foundation.platform
    has_former = platform.storage.former_lustre is not None
    facts = {}
    if lustre:
        facts["TRAINWAY_FSX_ID"] = lustre.file_system_id
        facts["TRAINWAY_FSX_DNS_NAME"] = lustre.dns_name
        facts["TRAINWAY_FSX_MOUNT_NAME"] = lustre.mount_name
    facts[image_fact(DEFAULT_IMAGE)] = registry.image_uri
    # A runtime of a node group names its image, so the stage runs again when that image changes.
    named = {group.image for group in platform.node_groups if group.image}
    facts |= {image_fact(name): uri for name, uri in foundation.images.items() if name in named}
    if lustre and platform.storage.dynamic_volumes:
        facts["TRAINWAY_FSX_SUBNET_ID"] = foundation.network.storage_subnet_id
        facts["TRAINWAY_FSX_GROUP_ID"] = lustre.security_group_id
    return BuildStage(
        scope,
        "ClusterStage",
        platform=platform.name,
        name="cluster",
        inputs=StageInputs(
            {
                **registry.mirror_environment,
                **facts,
                **_adopted(platform),
                "CLUSTER_NAME": platform.cluster_name,
            },
            stands_for=file_system_identity(platform),
            parameters=former_parameters(platform.name) if has_former else {},
        ),
        permissions=[
            Permission(("eks:DescribeCluster",), (control_plane.cluster.arn,)),
            registry.keep_tools,
            *registry_permissions(registry.mirrored, push=False),
            *run_ai_permissions(platform),
            *([read_former(platform.name)] if has_former else []),
        ],
        times=stage_times(CHARTS),
        # The cluster's endpoint always answers in this network, and allows the cluster's own security group.
        machine=BuildMachine(network=foundation.network.inside(control_plane.cluster.security_group_id)),
    )


def _adopted(platform: Platform) -> dict[str, str]:
    """Return the variables by which the stage knows that the platform has adopted the cluster."""
    adopted = platform.adopted_cluster
    if adopted is None:
        return {}
    return {"ADOPTED_CLUSTER": "yes"} | ({"WITHDRAW": "yes", "CHARTS": ""} if adopted.withdraw else {})
