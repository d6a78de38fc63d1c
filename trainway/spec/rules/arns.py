"""The ARNs of a platform file name what the platform can reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.partition import partition_of
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, path_of_image, rule
from trainway.spec.sections.capacity import TrainingPlan

# The sections whose KMS keys encrypt something of the platform. Another key decrypts a secret, which can be elsewhere.
_ENCRYPTED: Final = ("hyperpod", "storage")


@rule
def arns_are_of_the_partition(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Every ARN is of the partition of the platform's Region.

    Partitions such as those of China and of GovCloud know nothing of each other.
    """
    wanted = partition_of(platform.region)
    for key, arn in _arns(platform):
        partition = arn.split(":")[1]
        if partition != wanted:
            reason = f"it is of the partition {partition}, and {platform.region} is in {wanted}"
            yield key, reason, f"write the ARN of one of an account there, which begins with arn:{wanted}:"


@rule
def keys_clusters_and_plans_are_of_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A KMS key of files or volumes, an EKS cluster, and a training plan are of the platform's Region."""
    for key, arn in _arns(platform):
        _, partition, service, region, _, resource = arn.split(":", 5)
        encrypts = service == "kms" and key[0] in _ENCRYPTED
        is_of_region = encrypts or service == "eks" or resource.startswith("training-plan/")
        if is_of_region and region != platform.region and partition == partition_of(platform.region):
            reason = f"it is in {region}, and the platform in {platform.region}"
            yield key, reason, f"write the ARN of one in {platform.region}"


@rule
def what_only_its_account_can_use_is_of_the_account(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A boundary, a secret without a key, and a bucket of an account's namespace are of the platform's account.

    The account is that of a training plan or of the existing cluster, which no other account can use.
    https://docs.aws.amazon.com/secretsmanager/latest/userguide/auth-and-access_examples_cross.html
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/gpbucketnamespaces.html (both read 2026-11-30)
    """
    account = _account(platform)
    boundary = platform.iam.permissions_boundary
    if account and boundary and boundary.split(":")[4] not in (account, "aws"):
        reason = f"the platform is in account {account}, and a boundary is a policy of the role's own account"
        yield ("iam", "permissions_boundary"), reason, f"write the ARN of a policy of {account}"
    for key, secret, has_key in _secrets(platform):
        if account and secret.split(":")[4] != account and not has_key:
            reason = f"the platform is in account {account}, and AWS's own key lets no other account read a secret"
            yield key, reason, f"write a secret of {account}, or the key that encrypts this one"
    name = platform.storage.bucket.name or ""
    if found := re.fullmatch(r".+-(\d{12})-([a-z0-9-]+)-an", name):
        wanted = (account or found[1], platform.region)
        if found.groups() != wanted:
            reason = f"names that end like this are of account {found[1]} and {found[2]}"
            yield ("storage", "bucket", "name"), reason, f"write one that ends in -{wanted[0]}-{wanted[1]}-an"


@rule
def a_key_is_where_its_secret_is(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A secret is encrypted by a key of its own Region."""
    for index, secret in enumerate(platform.secrets):
        if secret.key and secret.key.split(":")[3] != secret.secret.split(":")[3]:
            reason = f"it is in {secret.key.split(':')[3]}, and the secret in {secret.secret.split(':')[3]}"
            yield ("secrets", index, "key"), reason, "write the key that encrypts the secret"


@rule
def a_registry_is_of_the_partition(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Hosts of ECR in China end in amazonaws.com.cn, and no others do."""
    for name in platform.image_names:
        uri = platform.of_image(name).image.uri or ""
        found = re.match(r"\d{12}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?/", uri)
        if found and found[1].startswith("cn-") != bool(found[2]):
            reason = f"ECR has no host of this name in {found[1]}"
            ending = "amazonaws.com.cn" if found[1].startswith("cn-") else "amazonaws.com"
            yield path_of_image(name, ("image", "uri")), reason, f"end the host in {ending}"


def _account(platform: Platform) -> str | None:
    """Return the account that the platform must be in, or None if the file does not say."""
    if platform.adopted_cluster:
        return platform.adopted_cluster.arn.split(":")[4]
    plans = (group.capacity for group in platform.node_groups)
    return next((each.training_plan.split(":")[4] for each in plans if isinstance(each, TrainingPlan)), None)


def _secrets(platform: Platform) -> Iterator[tuple[KeyPath, str, bool]]:
    """Yield each secret, with whether another key than AWS's own encrypts it."""
    for index, secret in enumerate(platform.secrets):
        yield ("secrets", index, "secret"), secret.secret, secret.key is not None
    if database := platform.slurm_or_default.accounting_database:
        yield ("slurm", "accounting_database", "secret"), database.secret, False


def _arns(value: Any, key: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield each ARN of the file, and its key."""
    if isinstance(value, str):
        if value.startswith("arn:") and value.count(":") >= 5:
            yield key, value
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield from _arns(getattr(value, name), (*key, field.alias or name))
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _arns(each, (*key, name))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _arns(each, (*key, index))
