"""The delivery stage that installs charts and manifests in a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.build_stage import BuildStage
from stacks.constructs.control_plane import ControlPlane
from stacks.constructs.permissions import Permission
from stacks.constructs.registry import registry_permissions
from stacks.image import ImageStack
from stacks.network import NetworkStack
from stacks.storage import StorageStack


def cluster_stage(
    scope: Construct, *, control_plane: ControlPlane, storage: StorageStack, image: ImageStack, network: NetworkStack
) -> BuildStage:
    """A stage that administers the cluster and reads the mirror; the system nodes its charts need exist by then."""
    lustre = storage.lustre.file_system
    facts: Mapping[str, str] = {
        "TRAINWAY_FSX_ID": lustre.ref,
        "TRAINWAY_FSX_DNS_NAME": lustre.attr_dns_name,
        "TRAINWAY_FSX_MOUNT_NAME": lustre.attr_lustre_mount_name,
        "TRAINWAY_IMAGE": image.image_uri,
    }
    stage = BuildStage(
        scope,
        "ClusterStage",
        platform=control_plane.name,
        name="cluster",
        environment={
            **image.mirror_environment,
            **facts,
            "CLUSTER_NAME": control_plane.name,
        },
        permissions=[
            Permission(("eks:DescribeCluster",), (control_plane.cluster.attr_arn,)),
            image.keep_tools,
            *registry_permissions(image.mirrored, push=False),
        ],
        timeout=cdk.Duration.minutes(45),
        # The cluster's own group, which its endpoint answers.
        network=network.build_network(control_plane.security_group_id),
    )
    control_plane.ready.append(control_plane.let_in("Delivery", stage.role.role_arn))
    return stage
