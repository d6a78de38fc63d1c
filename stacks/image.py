"""The training image, built on deploy."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.build_stage import BuildStage
from stacks.constructs.delivery import Delivery
from stacks.constructs.registry import registry_permissions
from stacks.foundation import Foundation


class ImageStack(cdk.Stack):
    """The pipeline that builds and pushes the training image; nothing that is deployed waits for it.

    Where the network is closed it builds on what `delivery/supply.sh` brought in.
    """

    def __init__(self, scope: Construct, id: str, *, foundation: Foundation) -> None:
        platform, registry = foundation.platform, foundation.registry
        super().__init__(scope, id, env=foundation.env, description=f"Trainway {platform.name}: training image")
        closed = platform.network.is_closed
        build = BuildStage(
            self,
            "Build",
            platform=platform.name,
            name="image",
            environment={
                "IMAGE_REPOSITORY": registry.training.repository_uri,
                "IMAGE_TAG": registry.tag,
                **(registry.supply_environment if closed else {}),
            },
            permissions=[
                *registry_permissions([registry.training], push=True),
                *(registry_permissions(registry.mirrored, push=False) if closed else []),
            ],
            timeout=cdk.Duration.minutes(90),
            compute_type="BUILD_GENERAL1_LARGE",
            docker=True,
            network=foundation.network.build_network(),
        )
        Delivery(
            self,
            "Delivery",
            name=f"{platform.name}-image",
            bundle=foundation.bundles.image,
            bucket=foundation.storage.bucket,
            steps=[[build]],
        )
