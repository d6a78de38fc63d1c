"""The partitions of AWS: Regions whose accounts, roles, and ARNs are unknown in those of other partitions."""

from __future__ import annotations

from typing import Final

# By the beginning of a Region's code, as in partitions.json of botocore 1.44.5. All others are of the partition aws.
_PARTITIONS: Final = {
    "cn": "aws-cn",
    "eu-isoe": "aws-iso-e",
    "eusc": "aws-eusc",
    "us-gov": "aws-us-gov",
    "us-iso": "aws-iso",
    "us-isob": "aws-iso-b",
    "us-isof": "aws-iso-f",
}


# Regions that every account of the partition has.
_FIRST: Final = {"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}


def always_enabled(region: str) -> str:
    """Return a Region of the same partition that needs no opt-in, or the Region itself in a partition of few Regions.

    https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-regions.html (read 2026-11-30)
    """
    return _FIRST.get(partition_of(region), region)


def partition_of(region: str) -> str:
    """Return the partition of a Region, as it stands in ARNs.

    https://docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html (read 2026-11-29)
    """
    first, second, *_ = (*region.split("-"), "")
    return _PARTITIONS.get(f"{first}-{second}") or _PARTITIONS.get(first, "aws")
