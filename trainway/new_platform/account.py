"""Read from AWS what a first platform file can use: reserved capacity, and VPCs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, Final, TypeVar

from trainway.spec.errors import usage_error
from trainway.spec.sections.capacity import minute

Answer = TypeVar("Answer")
# A platform needs a few of the sixteen shares of a range, so it fits in none that is much smaller.
_SMALLEST: Final = 22
_ABSENT: Final = ("InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed", "ResourceNotFound")


@dataclass(frozen=True)
class Reserved:
    """Reserved capacity as AWS describes it. `start` and `end` are None if AWS gives no time."""

    instance_type: str
    zone: str
    count: int
    start: str | None
    end: str | None


def reserved(capacity: str, region: str) -> Reserved | None:
    """Return what AWS says of a reservation, a block, or a plan; None if AWS cannot be asked.

    Raises UsageError if the account does not have it.
    """
    read = _plan if capacity.startswith("arn:") else _reservation
    return _asked(lambda: read(capacity.rpartition(":" if read is _reservation else "/")[2], region), capacity, region)


def ranges_in_use(region: str) -> list[IPv4Network]:
    """Return the CIDR blocks of the account's VPCs, or none if AWS cannot be asked."""
    return _asked(lambda: list(_ranges(region)), "the VPCs", region) or []


def free_ranges(existing: Mapping[str, Any]) -> Iterator[IPv4Network]:
    """Yield CIDR blocks of a VPC that no subnet of it uses, the largest first."""
    taken = [IPv4Network(each) for each in existing.get("taken", ())]
    for prefix in range(16, _SMALLEST + 1):
        for whole in map(IPv4Network, existing["cidrs"]):
            if prefix >= whole.prefixlen:
                parts = whole.subnets(new_prefix=prefix)
                yield from (part for part in parts if not any(part.overlaps(each) for each in taken))


def _asked(question: Callable[[], Answer], what: str, region: str) -> Answer | None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return question()
    except ClientError as error:
        if error.response["Error"]["Code"] in _ABSENT:
            why = f"the account of this shell has none of this name in {region}"
            raise usage_error(what, why=why, fix="name one that it has, or sign in to its account") from None
        return None
    except BotoCoreError:
        return None


def _client(service: str, region: str) -> Any:
    import boto3
    from botocore.config import Config

    session: Any = boto3.Session(region_name=region)
    return session.client(service, config=Config(connect_timeout=3, read_timeout=8, retries={"total_max_attempts": 2}))


def _reservation(identifier: str, region: str) -> Reserved:
    answer = _client("ec2", region).describe_capacity_reservations(CapacityReservationIds=[identifier])
    (found,) = answer["CapacityReservations"]
    is_block = found.get("ReservationType") == "capacity-block"
    start, end = (found.get(each) if is_block else None for each in ("StartDate", "EndDate"))
    return Reserved(
        found["InstanceType"],
        found["AvailabilityZoneId"],
        int(found.get("TotalInstanceCount", 0)),
        minute(start) if start and end else None,
        minute(end) if start and end else None,
    )


def _plan(name: str, region: str) -> Reserved:
    found = _client("sagemaker", region).describe_training_plan(TrainingPlanName=name)
    (first, *_) = found["ReservedCapacitySummaries"]
    return Reserved(
        str(first["InstanceType"]).removeprefix("ml."),
        str(first.get("AvailabilityZoneId") or first.get("AvailabilityZone", "")),
        int(found.get("TotalInstanceCount", 0)),
        None,
        None,
    )


def _ranges(region: str) -> Iterator[IPv4Network]:
    for page in _client("ec2", region).get_paginator("describe_vpcs").paginate():
        for vpc in page["Vpcs"]:
            yield from (IPv4Network(each["CidrBlock"]) for each in vpc["CidrBlockAssociationSet"])
