"""The registry: where the training image goes, and the copies of what the cluster runs."""

from __future__ import annotations

import json

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.delivery.bundle import Bundles
from stacks.constructs.delivery.registry import (
    BASE_IMAGE,
    base_repository,
    mirrored_names,
    repository,
    repository_arn,
)
from stacks.constructs.iam.permissions import Permission
from stacks.foundation.storage import StorageStack
from trainway.spec.derived.charts import chart_names
from trainway.spec.derived.node_packages import node_containers
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator

TOOLS_PREFIX = "delivery"


class RegistryStack(cdk.Stack):
    """ECR repositories, empty until the stages fill them, or `delivery/supply.sh` where the network is closed.

    There the output `Supply` is its command.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        catalogue: Catalogue,
        bundles: Bundles,
        storage: StorageStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: registry")
        self.charts = chart_names(platform, catalogue)
        self.training = repository(self, "Training", name=f"{platform.name}/training", keep=platform.image.keep)
        self.tag = bundles.image_content
        self.image_uri = self.training.repository_uri_for_tag(self.tag)
        self.mirrored = []
        for name in mirrored_names(self.charts):
            repository(self, _logical(name), name=f"{platform.name}/mirror/{name}", keep=None)
            self.mirrored.append(repository_arn(platform, f"mirror/{name}"))
        base_repository(self, _logical(BASE_IMAGE), name=f"{platform.name}/mirror/{BASE_IMAGE}")
        self.base = repository_arn(platform, f"mirror/{BASE_IMAGE}")
        location = {
            "MIRROR_REGISTRY": f"{self.account}.dkr.ecr.{self.region}.{self.url_suffix}",
            "MIRROR_PREFIX": f"{platform.name}/mirror",
            "NETWORK_ACCESS": platform.network.access,
        }
        self.base_environment = {**location, "BASE_TAG": bundles.base_image_content}
        self.mirror_environment = {
            **location,
            "MIRROR_BUCKET_URI": f"s3://{storage.bucket.bucket_name}/{TOOLS_PREFIX}",
            "CHARTS": " ".join(self.charts),
        }
        self.image_arguments = bundles.image_arguments
        closed = platform.network.is_closed
        self.keep_tools = Permission(
            ("s3:GetObject",) if closed else ("s3:GetObject", "s3:PutObject"),
            (storage.bucket.arn_for_objects(f"{TOOLS_PREFIX}/*"),),
            because="Tools and manifests are named by their version or checksum, below their own prefix.",
        )
        if closed:
            self._say_how_to_supply(platform)

    def _say_how_to_supply(self, platform: Platform) -> None:
        name = f"/trainway/{platform.name}/delivery/supply"
        slurm = platform.orchestrator is Orchestrator.HYPERPOD_SLURM
        exporters = json.dumps(platform.slurm_or_default.exporters)
        nodes = {"CONTAINERS": node_containers(platform), "EXPORTERS": exporters} if slurm else {}
        ssm.CfnParameter(
            self,
            "SupplyParameter",
            name=name,
            type="String",
            description="What delivery/supply.sh brings in, and where to",
            # A standard parameter holds 4 KiB.
            tier="Intelligent-Tiering",
            value=self.to_json_string(
                {**self.mirror_environment, **self.base_environment, **nodes, "IMAGE_ARGUMENTS": self.image_arguments}
            ),
        )
        cdk.CfnOutput(
            self,
            "Supply",
            value=f"AWS_REGION={platform.region} SUPPLY_PARAMETER={name} bash delivery/supply.sh",
            description="Where there is the internet: brings in what a closed network cannot fetch",
        )


def _logical(name: str) -> str:
    return "".join(part.capitalize() for part in name.replace("/", "-").split("-"))
