"""The image: registries for the training image and the mirror, and the stages that fill them."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.build_stage import BuildStage
from stacks.constructs.bundle import Bundle
from stacks.constructs.permissions import Permission
from stacks.constructs.registry import mirrored_names, registry_permissions, repository
from stacks.storage import StorageStack
from trainway.spec.platform import Platform

TOOLS_PREFIX = "delivery"


class ImageStack(cdk.Stack):
    """ECR repositories and the CodeBuild stages that build the training image and mirror what the cluster runs."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        bundle: Bundle,
        storage: StorageStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: image")
        self.training = repository(self, "Training", name=f"{platform.name}/training", keep=platform.image.keep)
        self.tag = bundle.image_content
        self.image_uri = self.training.repository_uri_for_tag(self.tag)
        self.build = BuildStage(
            self,
            "Build",
            platform=platform.name,
            name="image",
            environment={"IMAGE_REPOSITORY": self.training.repository_uri, "IMAGE_TAG": self.tag},
            permissions=registry_permissions([self.training], push=True),
            timeout=cdk.Duration.minutes(90),
            compute_type="BUILD_GENERAL1_LARGE",
            docker=True,
        )
        self.mirrored = [
            repository(self, _logical(name), name=f"{platform.name}/mirror/{name}", keep=None)
            for name in mirrored_names(platform.orchestrator)
        ]
        self.mirror_environment = {
            "MIRROR_REGISTRY": f"{self.account}.dkr.ecr.{self.region}.{self.url_suffix}",
            "MIRROR_PREFIX": f"{platform.name}/mirror",
            "MIRROR_BUCKET_URI": f"s3://{storage.bucket.bucket_name}/{TOOLS_PREFIX}",
            "ORCHESTRATOR": platform.orchestrator.value,
        }
        self.keep_tools = Permission(
            ("s3:GetObject", "s3:PutObject"),
            (storage.bucket.arn_for_objects(f"{TOOLS_PREFIX}/*"),),
            because="Tools are named by their version, below their own prefix.",
        )
        self.mirror = [self._mirror(platform.name)] if self.mirrored else []

    def _mirror(self, platform: str) -> BuildStage:
        return BuildStage(
            self,
            "Mirror",
            platform=platform,
            name="mirror",
            environment=self.mirror_environment,
            permissions=[*registry_permissions(self.mirrored, push=True), self.keep_tools],
            timeout=cdk.Duration.minutes(30),
            docker=True,
        )


def _logical(name: str) -> str:
    return "".join(part.capitalize() for part in name.replace("/", "-").split("-"))
