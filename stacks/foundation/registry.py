"""The registry: repositories for the training image and for copies of the cluster's charts and images."""

from __future__ import annotations

import json

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.delivery.bundle import Bundles, ImageBundle
from stacks.constructs.delivery.image_settings import TOOLS_PREFIX, image_settings
from stacks.constructs.delivery.registry import (
    BASE_IMAGE,
    base_repository,
    mirrored_names,
    repository,
    repository_arn,
)
from stacks.constructs.iam.permissions import Permission
from stacks.foundation.storage import StorageStack
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff_names import DEFAULT_IMAGE, image_repository
from trainway.spec.image.image_build import has_additions
from trainway.spec.kubernetes.charts import chart_names, docker_hub_login
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.slurm.node_packages import node_containers


class RegistryStack(cdk.Stack):
    """ECR repositories. The stages fill them, or `delivery/supply.sh` if the network is closed.

    In a closed network, the output `Supply` is the command to run.
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
        views = {name: platform.of_image(name) for name in platform.image_names}
        self.training = repository(
            self, "Training", name=image_repository(platform.name, DEFAULT_IMAGE), keep=platform.image.keep
        )
        # Exported also for a platform whose image is not built: decision 13.
        self.export_value(self.training.repository_arn)
        self.mirrored = []
        for name in mirrored_names(self.charts):
            repository(self, _logical(name), name=f"{platform.name}/mirror/{name}", keep=None)
            self.mirrored.append(repository_arn(platform, f"mirror/{name}"))
        base_repository(
            self,
            _logical(BASE_IMAGE),
            name=f"{platform.name}/mirror/{BASE_IMAGE}",
            images=len(platform.image_names),
            keep_added=sum(each.image.keep for each in views.values() if has_additions(each)),
        )
        self.base = repository_arn(platform, f"mirror/{BASE_IMAGE}")
        location = {
            "MIRROR_REGISTRY": f"{self.account}.dkr.ecr.{self.region}.{self.url_suffix}",
            "MIRROR_PREFIX": f"{platform.name}/mirror",
            "NETWORK_ACCESS": platform.network.access,
        }
        self.images = {
            name: image_settings(view, bundles.images[name], location, storage.bucket) for name, view in views.items()
        }
        # The URI of the default image names the repository, so that a deploy waits for it.
        self.image_uri = platform.image.uri or self.training.repository_uri_for_tag(bundles.image.tag)
        self.mirror_environment = {
            **location,
            "MIRROR_BUCKET_URI": f"s3://{storage.bucket.bucket_name}/{TOOLS_PREFIX}",
            "CHARTS": " ".join(self.charts),
            **({"RUN_AI_SECRET": section.secret} if (section := platform.installed_run_ai) else {}),
        }
        closed = platform.network.is_closed
        self.keep_tools = Permission(
            ("s3:GetObject",) if closed else ("s3:GetObject", "s3:PutObject"),
            (storage.bucket.arn_for_objects(f"{TOOLS_PREFIX}/*"),),
            because="Tools and manifests are named by their version or checksum, below their own prefix.",
        )
        if closed:
            for name, view in views.items():
                # Charts come in with the default image, whoever builds it.
                if name == DEFAULT_IMAGE or view.image.uri is None:
                    self._say_how_to_supply(view, bundles.images[name])

    def copy_environment(self, platform: Platform) -> dict[str, str]:
        """Return the environment of what copies: the mirror stage, or in a closed network delivery/supply.sh."""
        login = docker_hub_login(platform, self.charts)
        return {**self.mirror_environment, **({"DOCKER_HUB_SECRET": login.secret} if login else {})}

    def _say_how_to_supply(self, platform: Platform, bundle: ImageBundle) -> None:
        """Write what delivery/supply.sh brings in for an image; with the default one, everything else as well."""
        image, settings = platform.image_name, self.images[platform.image_name]
        others = image != DEFAULT_IMAGE
        name = f"/trainway/{platform.name}/delivery/supply{f'/{image}' if others else ''}"
        slurm = platform.orchestrator is Orchestrator.HYPERPOD_SLURM
        exporters = json.dumps(platform.slurm_or_default.exporters)
        nodes = {"CONTAINERS": node_containers(platform), "EXPORTERS": exporters} if slurm and not others else {}
        if collector_of(platform) is Collector.AGENT and not others:
            nodes["COLLECTOR"] = "true"
        charts = {"CHARTS": ""} if others else {}
        ssm.CfnParameter(
            self,
            f"SupplyParameter{_logical(image) if others else ''}",
            name=name,
            type="String",
            description="What delivery/supply.sh brings in, and where to",
            # A standard parameter holds 4 KiB.
            tier="Intelligent-Tiering",
            value=self.to_json_string(
                {
                    **self.copy_environment(platform),
                    **charts,
                    **(settings.additions or settings.base),
                    **settings.base_source,
                    **nodes,
                    "IMAGE_ARGUMENTS": bundle.arguments,
                }
            ),
        )
        cdk.CfnOutput(
            self,
            f"Supply{_logical(image) if others else ''}",
            value=f"AWS_REGION={platform.region} SUPPLY_PARAMETER={name} bash delivery/supply.sh",
            description="Where there is the internet: brings in what a closed network cannot fetch",
        )


def _logical(name: str) -> str:
    return "".join(part.capitalize() for part in name.replace("/", "-").split("-"))
