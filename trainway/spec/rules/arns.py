"""The ARNs of a platform file name what the platform can reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.partition import partition_of
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule

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
