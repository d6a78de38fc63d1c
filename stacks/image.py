"""The image: registries for the training image and the mirror, and the stages that fill them."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.build_stage import BuildStage
from stacks.constructs.bundle import Bundle
from stacks.constructs.permissions import Permission
from stacks.constructs.registry import mirrored_names, registry_permissions, repository
from stacks.network import NetworkStack
from stacks.storage import StorageStack
from trainway.spec.catalogue import Catalogue
from trainway.spec.charts import chart_names
from trainway.spec.platform import Platform

TOOLS_PREFIX = "delivery"


class ImageStack(cdk.Stack):
    """ECR repositories and the CodeBuild stages that build the training image and mirror what the cluster runs.

    Where the network is closed the stages copy and fetch nothing: they look whether everything is there that
    `delivery/supply.sh` brings in, by the command in the output `Supply`.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        catalogue: Catalogue,
        bundle: Bundle,
        network: NetworkStack,
        storage: StorageStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: image")
        self.training = repository(self, "Training", name=f"{platform.name}/training", keep=platform.image.keep)
        self.tag = bundle.image_content
        self.image_uri = self.training.repository_uri_for_tag(self.tag)
        charts = chart_names(platform, catalogue)
        self.mirrored = [
            repository(self, _logical(name), name=f"{platform.name}/mirror/{name}", keep=None)
            for name in mirrored_names(platform, charts)
        ]
        self.mirror_environment = {
            "MIRROR_REGISTRY": f"{self.account}.dkr.ecr.{self.region}.{self.url_suffix}",
            "MIRROR_PREFIX": f"{platform.name}/mirror",
            "MIRROR_BUCKET_URI": f"s3://{storage.bucket.bucket_name}/{TOOLS_PREFIX}",
            "CHARTS": " ".join(charts),
            "NETWORK_ACCESS": platform.network.access,
        }
        closed = platform.network.is_closed
        self.keep_tools = Permission(
            ("s3:GetObject",) if closed else ("s3:GetObject", "s3:PutObject"),
            (storage.bucket.arn_for_objects(f"{TOOLS_PREFIX}/*"),),
            because="Tools and manifests are named by their version or checksum, below their own prefix.",
        )
        environment = {"IMAGE_REPOSITORY": self.training.repository_uri, "IMAGE_TAG": self.tag}
        permissions = registry_permissions([self.training], push=True)
        if closed:
            supply = {**self.mirror_environment, "BASE_TAG": bundle.base_image_content}
            environment |= supply
            permissions += registry_permissions(self.mirrored, push=False)
            self._say_how_to_supply(platform, supply)
        self.build = BuildStage(
            self,
            "Build",
            platform=platform.name,
            name="image",
            environment=environment,
            permissions=permissions,
            timeout=cdk.Duration.minutes(90),
            compute_type="BUILD_GENERAL1_LARGE",
            docker=True,
            network=network.build_network(),
        )
        self.mirror = [self._mirror(platform, network)] if charts else []

    def _mirror(self, platform: Platform, network: NetworkStack) -> BuildStage:
        return BuildStage(
            self,
            "Mirror",
            platform=platform.name,
            name="mirror",
            environment=self.mirror_environment,
            permissions=[
                *registry_permissions(self.mirrored, push=not platform.network.is_closed),
                self.keep_tools,
            ],
            timeout=cdk.Duration.minutes(30),
            docker=True,
            network=network.build_network(),
        )

    def _say_how_to_supply(self, platform: Platform, environment: dict[str, str]) -> None:
        name = f"/trainway/{platform.name}/delivery/supply"
        ssm.CfnParameter(
            self,
            "SupplyParameter",
            name=name,
            type="String",
            description="What delivery/supply.sh brings in, and where to",
            value=self.to_json_string(environment),
        )
        cdk.CfnOutput(
            self,
            "Supply",
            value=f"AWS_REGION={platform.region} SUPPLY_PARAMETER={name} bash delivery/supply.sh",
            description="Where there is the internet: brings in what a closed network cannot fetch",
        )


def _logical(name: str) -> str:
    return "".join(part.capitalize() for part in name.replace("/", "-").split("-"))
