"""ECR repositories: for the training image, and for the copies of what the cluster runs."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
import yaml
from aws_cdk import aws_ecr as ecr
from constructs import Construct

from stacks.constructs.iam.permissions import Permission, regional_arn
from stacks.constructs.retention import goes_with_its_stack
from trainway.parts.checkout import CHECKOUT
from trainway.spec.platform import Platform

# What delivery/base.sh builds: the training image without the job.
BASE_IMAGE = "training-base"
# The tags that it gives to the caches of builds.
CACHE_PREFIX = "cache-"
PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:DescribeImages", "ecr:GetDownloadUrlForLayer")
COPY = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
AWS_REGISTRY = r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com/(.+)"
LOG_IN = Permission(("ecr:GetAuthorizationToken",), ("*",), because="ecr:GetAuthorizationToken has no resource type.")
PUSH = ("ecr:CompleteLayerUpload", "ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:UploadLayerPart")


def repository(scope: Construct, id: str, *, name: str, keep: int | None) -> ecr.Repository:
    """A repository whose tags never move and whose images are scanned; `keep` None keeps every image."""
    made = ecr.Repository(
        scope,
        id,
        repository_name=name,
        encryption=ecr.RepositoryEncryption.KMS,
        image_scan_on_push=True,
        image_tag_mutability=ecr.TagMutability.IMMUTABLE,
        lifecycle_rules=[ecr.LifecycleRule(max_image_count=keep)] if keep else None,
        # Images are rebuilt from this repository by the next deploy; nothing is lost with them.
        empty_on_delete=True,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    goes_with_its_stack(made)
    return made


def base_repository(scope: Construct, id: str, *, name: str) -> ecr.Repository:
    """A repository of the training image's bases, and of the caches of their builds.

    It keeps every base. A rule could only count bases by their age, and the one in use can be the oldest: a platform
    that returns to earlier versions finds its base and builds none. Of the caches it keeps the two newest.
    """
    made = repository(scope, id, name=name, keep=None)
    made.add_lifecycle_rule(
        description="Builds begin with the newest cache", tag_prefix_list=[CACHE_PREFIX], max_image_count=2
    )
    return made


def mirrored_names(charts: tuple[str, ...]) -> list[str]:
    """The repositories, below the platform's prefix, of what is brought from the internet for the chosen charts.

    A manifest is no chart in ECR: its copy is in the bucket, and only its images are here.
    """
    mirror = _mirror_list()
    chosen = [chart for chart in mirror["charts"] if chart["chart"] in charts]
    used = {value["image"] for chart in chosen for value in chart["image_values"]}
    images = [image["name"] for image in mirror["images"] if image["name"] in used]
    packed = [f"charts/{chart['chart']}" for chart in chosen if "manifest" not in chart]
    return images + packed


def source_permissions(charts: tuple[str, ...]) -> list[Permission]:
    """What a role needs to copy the charts' images that are in ECR registries of AWS's own accounts.

    https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html (read 2026-11-21)
    """
    mirror = _mirror_list()
    used = {value["image"] for chart in mirror["charts"] if chart["chart"] in charts for value in chart["image_values"]}
    found = [re.fullmatch(AWS_REGISTRY, image["repository"]) for image in mirror["images"] if image["name"] in used]
    arns = tuple(f"arn:{cdk.Aws.PARTITION}:ecr:{each[2]}:{each[1]}:repository/{each[3]}" for each in found if each)
    return [Permission(COPY, arns)] if arns else []


def repository_arn(platform: Platform, name: str) -> str:
    """Return the ARN of a repository by its name.

    A list of charts changes with the platform file. An import of a repository's ARN from the registry's stack would
    keep that stack from deleting the repository.
    """
    return regional_arn("ecr", f"repository/{platform.name}/{name}")


def registry_permissions(arns: Sequence[str], *, push: bool) -> list[Permission]:
    """What a role needs to pull from the repositories, or to push to them as well; nothing where there are none.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerregistry.html
    """
    return [LOG_IN, Permission(PULL + (PUSH if push else ()), tuple(arns))] if arns else []


def list_permissions(arns: Sequence[str]) -> list[Permission]:
    """Return the permissions to list the images of repositories. Empty without repositories."""
    return [Permission(("ecr:DescribeImages",), tuple(arns))] if arns else []


@functools.cache
def _mirror_list() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CHECKOUT / "delivery" / "mirror.yaml").read_text(encoding="utf-8"))
    return loaded
