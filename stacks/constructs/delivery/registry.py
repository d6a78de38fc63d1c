"""ECR repositories: for the training image, and for the copies of what the cluster runs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
import yaml
from aws_cdk import aws_ecr as ecr
from constructs import Construct

from stacks.constructs.iam.permissions import Permission, regional_arn
from stacks.constructs.retention import goes_with_its_stack
from trainway.parts.checkout import CHECKOUT
from trainway.spec.image.image_reference import EcrRepository, ecr_repository_of
from trainway.spec.platform import Platform
from trainway.spec.sections.image import Image, RegistryLogin

# What delivery/base.sh builds: the training image without the job.
BASE_IMAGE = "training-base"
# The tags that it gives to the caches of builds.
CACHE_PREFIX = "cache-"
# The tags that delivery/additions.sh gives: delivery/content_hash.py.
ADDED_PREFIXES = ("packages-", "dockerfile-")
PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:DescribeImages", "ecr:GetDownloadUrlForLayer")
COPY = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
LOG_IN = Permission(("ecr:GetAuthorizationToken",), ("*",), because="ecr:GetAuthorizationToken has no resource type.")
PUSH = ("ecr:CompleteLayerUpload", "ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:UploadLayerPart")


def repository(scope: Construct, id: str, *, name: str, keep: int | None) -> ecr.Repository:
    """Create a repository with immutable tags and scanned images. Without `keep`, it keeps every image."""
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


def base_repository(scope: Construct, id: str, *, name: str, images: int, keep_added: int) -> ecr.Repository:
    """Create a repository for the bases of the training image, the caches of their builds, and bases with additions.

    It keeps every base. A rule could only count bases by their age, and the one in use can be the oldest: a platform
    that returns to earlier versions finds its base and builds none. Of the caches it keeps the newest, one more than
    the platform has images.

    It keeps the `keep_added` newest bases with packages, and as many with a Dockerfile of the user's. The deploy builds
    an older one again. 0 is for a platform that adds nothing to its bases.
    """
    made = repository(scope, id, name=name, keep=None)
    made.add_lifecycle_rule(
        description="Builds begin with the newest cache", tag_prefix_list=[CACHE_PREFIX], max_image_count=images + 1
    )
    for prefix in ADDED_PREFIXES if keep_added else ():
        made.add_lifecycle_rule(
            description=f"As many as there are images, {prefix}", tag_prefix_list=[prefix], max_image_count=keep_added
        )
    return made


def mirrored_names(charts: tuple[str, ...]) -> list[str]:
    """Return the repositories, below the platform's prefix, of what the mirror copies for the chosen charts.

    A manifest is no chart in ECR: its copy is in the bucket, and only its images are here.
    """
    mirror = _mirror_list()
    chosen = [chart for chart in mirror["charts"] if chart["chart"] in charts]
    used = {value["image"] for chart in chosen for value in chart["image_values"]}
    images = [image["name"] for image in mirror["images"] if image["name"] in used]
    packed = [f"charts/{chart['chart']}" for chart in chosen if "manifest" not in chart]
    return images + packed


def source_permissions(charts: tuple[str, ...]) -> list[Permission]:
    """Return the permissions to copy the charts' images from ECR registries of AWS's own accounts.

    https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html (read 2026-11-21)
    """
    mirror = _mirror_list()
    used = {value["image"] for chart in mirror["charts"] if chart["chart"] in charts for value in chart["image_values"]}
    return _copy_permissions([image["repository"] for image in mirror["images"] if image["name"] in used])


def base_permissions(image: Image) -> list[Permission]:
    """Return the permissions to fetch the base and the packages that are not public.

    https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html (read 2026-11-23)
    """
    copied = _copy_permissions([image.base] if image.base else [])
    return [*copied, *login_permissions([image.base_login, image.build.pip_login])]


def additions_permissions(image: Image) -> list[Permission]:
    """Return the permissions to fetch the packages that the platform file adds."""
    return login_permissions([image.build.pip_login])


def login_permissions(some: Sequence[RegistryLogin | None]) -> list[Permission]:
    """Return the permissions to read the logins that are not None."""
    found = []
    logins = [login for login in some if login]
    for secret in dict.fromkeys(login.secret for login in logins):
        found.append(Permission(("secretsmanager:GetSecretValue",), (secret,)))
    for key in dict.fromkeys(login.key for login in logins if login.key):
        found.append(Permission(("kms:Decrypt",), (key,)))
    return found


def _copy_permissions(images: Sequence[str]) -> list[Permission]:
    found = [ecr_repository_of(image) for image in images]
    arns = tuple(_arn(each) for each in found if each)
    return [Permission(COPY, arns)] if arns else []


def _arn(of: EcrRepository) -> str:
    return f"arn:{cdk.Aws.PARTITION}:ecr:{of.region}:{of.account}:repository/{of.name}"


def repository_arn(platform: Platform, name: str) -> str:
    """Return the ARN of a repository by its name.

    A list of charts changes with the platform file. An import of a repository's ARN from the registry's stack would
    keep that stack from deleting the repository.
    """
    return regional_arn("ecr", f"repository/{platform.name}/{name}")


def registry_permissions(arns: Sequence[str], *, push: bool) -> list[Permission]:
    """Return the permissions to pull from the repositories, or also to push. Empty without repositories.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerregistry.html
    """
    return [LOG_IN, Permission(PULL + (PUSH if push else ()), tuple(arns))] if arns else []


def user_image_permissions(platform: Platform) -> list[Permission]:
    """Return what a role needs to pull each `uri` of the platform's images, which can be in another account.

    The policy of a repository in another account has to let this account pull, too.
    https://docs.aws.amazon.com/AmazonECR/latest/userguide/repository-policy-examples.html (read 2026-11-23)
    """
    found = [ecr_repository_of(platform.of_image(name).image.uri or "") for name in platform.image_names]
    arns = dict.fromkeys(_arn(each) for each in found if each)
    return [Permission(PULL, tuple(arns))] if arns else []


def list_permissions(arns: Sequence[str]) -> list[Permission]:
    """Return the permissions to list the images of repositories. Empty without repositories."""
    return [Permission(("ecr:DescribeImages",), tuple(arns))] if arns else []


@functools.cache
def _mirror_list() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CHECKOUT / "delivery" / "mirror.yaml").read_text(encoding="utf-8"))
    return loaded
