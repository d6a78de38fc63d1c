"""What the build of an image does for an organization: copies to other Regions and accounts, and a signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import aws_cdk as cdk
from aws_cdk import aws_signer
from constructs import Construct

from delivery.content_hash import NONE
from stacks.constructs.delivery.registry import PULL, PUSH
from stacks.constructs.iam.permissions import Permission
from trainway.spec.platform import Platform

# https://docs.aws.amazon.com/signer/latest/developerguide/image-signing-steps.html (read 2026-11-23)
SIGNING_PLATFORM = "Notation-OCI-SHA384-ECDSA"


class OrganizationInputs(NamedTuple):
    """The variables and permissions that a build needs for it, and the ARN of the signing profile, if any."""

    environment: Mapping[str, str]
    permissions: list[Permission]
    signer: str | None


def organization_inputs(stack: cdk.Stack, platform: Platform, name: str, arn: str) -> OrganizationInputs:
    """Return what the build of an image needs to copy and to sign it. `name` and `arn` are those of its repository.

    Nothing for a platform file without the keys `replicate` and `sign`.
    """
    signer, is_chosen = _signer(stack, platform), platform.image.sign is not None
    hosts = [f"{account}.dkr.ecr.{region}.{stack.url_suffix}" for account, region in _replicas(platform)]
    copies = {"REPLICATE_TO": " ".join(hosts)} if hosts else {}
    return OrganizationInputs(
        copies | ({"SIGNING_PROFILE": signer or NONE} if is_chosen else {}),
        _replicate_permissions(platform, name) + (_signing_permissions(arn, signer) if is_chosen else []),
        signer,
    )


def _signer(scope: Construct, platform: Platform) -> str | None:
    """Return the ARN of the profile that ECR signs the image with, or None if it is not to be signed.

    CloudFormation chooses its name. A profile that is deleted is canceled: it is still listed, and its signatures
    stay valid. https://docs.aws.amazon.com/signer/latest/api/API_CancelSigningProfile.html (read 2026-11-23)
    """
    if not platform.image.sign:
        return None
    return str(aws_signer.CfnSigningProfile(scope, "SigningProfile", platform_id=SIGNING_PLATFORM).attr_arn)


def _replicas(platform: Platform) -> list[tuple[str, str]]:
    """Return the account and Region of each copy of the training image. This stack's own account is a reference."""
    wanted = platform.image.replicate
    if wanted is None:
        return []
    accounts, regions = wanted.accounts or (cdk.Aws.ACCOUNT_ID,), wanted.regions or (platform.region,)
    there = ((account, region) for account in accounts for region in regions)
    return [each for each in there if each != (cdk.Aws.ACCOUNT_ID, platform.region)]


def _replicate_permissions(platform: Platform, name: str) -> list[Permission]:
    """Return the permissions to copy the image `name` to the replicas of the platform file."""
    found = []
    for account, region in _replicas(platform):
        arn = f"arn:{cdk.Aws.PARTITION}:ecr:{region}:{account}:repository/{name}"
        create = ("ecr:CreateRepository",) if account == cdk.Aws.ACCOUNT_ID else ()
        found.append(Permission(PULL + PUSH + create, (arn,)))
    return found


def _signing_permissions(repository: str, profile: str | None) -> list[Permission]:
    """Return the permissions to let ECR sign pushed images of a repository, or, without a profile, to stop that.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/managed-signing.html (read 2026-11-23)
    """
    rules = Permission(
        ("ecr:GetSigningConfiguration", "ecr:PutSigningConfiguration"),
        ("*",),
        because="The signing configuration of a registry has no resource type.",
    )
    if profile is None:
        return [rules]
    return [
        rules,
        # An image that cannot be signed is deleted, so that the next attempt pushes it.
        Permission(("ecr:BatchDeleteImage", "ecr:DescribeImageSigningStatus"), (repository,)),
        Permission(("signer:SignPayload",), (profile,)),
    ]
