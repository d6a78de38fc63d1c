"""The mirror: copies of the cluster's charts and images, which can be fetched without the internet."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.delivery.build_stage import BuildMachine, BuildStage, StageInputs
from stacks.constructs.delivery.pipeline import Delivery
from stacks.constructs.delivery.registry import (
    list_permissions,
    login_permissions,
    registry_permissions,
    source_permissions,
)
from stacks.constructs.delivery.run_ai_secret import run_ai_permissions
from stacks.constructs.iam.permissions import Permission
from stacks.foundation import Foundation
from stacks.foundation.registry import RegistryStack
from trainway.spec.deployment.creation import MIRROR
from trainway.spec.deployment.stage_times import stage_times
from trainway.spec.kubernetes.charts import docker_hub_login


class MirrorStack(cdk.Stack):
    """The pipeline that copies charts and images into the registry.

    In a closed network it copies nothing. It checks that everything that `delivery/supply.sh` supplies is there.
    """

    def __init__(self, scope: Construct, id: str, *, foundation: Foundation) -> None:
        platform, registry = foundation.platform, foundation.registry
        closed = platform.network.is_closed
        super().__init__(scope, id, env=foundation.env, description=f"Trainway {platform.name}: mirror")
        mirror = BuildStage(
            self,
            "Mirror",
            platform=platform.name,
            name="mirror",
            inputs=StageInputs(registry.copy_environment(platform)),
            permissions=[
                *_permissions(registry, closed=closed),
                *([] if closed else run_ai_permissions(platform)),
                *([] if closed else login_permissions([docker_hub_login(platform, registry.charts)])),
                registry.keep_tools,
            ],
            times=stage_times(MIRROR),
            machine=BuildMachine(docker=True, network=foundation.network.build_network()),
        )
        Delivery(
            self,
            "Delivery",
            name=f"{platform.name}-mirror",
            bundle=foundation.bundles.mirror,
            bucket=foundation.storage.bucket,
            steps=[[mirror]],
        )


def _permissions(registry: RegistryStack, *, closed: bool) -> list[Permission]:
    """Return the stage's permissions: to copy images, or in a closed network to check that they exist."""
    if closed:
        return list_permissions(registry.mirrored)
    return [*registry_permissions(registry.mirrored, push=True), *source_permissions(registry.charts)]
