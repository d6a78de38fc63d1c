"""Buy an offering, extend what was bought, and read what was bought."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from trainway.extensions.capacity.offers import Offer, zone_ids
from trainway.price.asked import asking
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import CapacityKind

_TO_BUY = (
    "ec2:PurchaseCapacityBlock, ec2:PurchaseCapacityBlockExtension, sagemaker:CreateTrainingPlan, and "
    "sagemaker:ExtendTrainingPlan"
)
_TO_READ = "ec2:DescribeAvailabilityZones, ec2:DescribeCapacityReservations, and sagemaker:DescribeTrainingPlan"
# The pattern of TrainingPlanName (botocore 1.44.5).
_LONGEST_NAME = 64
_PLAN = re.compile(r"arn:aws[a-z-]*:sagemaker:(?P<region>[a-z0-9-]+):\d{12}:training-plan/(?P<name>.+)")


@dataclass(frozen=True)
class Purchase:
    """A Capacity Block or training plan that was bought: its ID or ARN, its nodes, and its start and end in UTC."""

    kind: CapacityKind
    id: str
    instance_type: str
    count: int
    zones: tuple[str, ...]
    start: datetime | None
    end: datetime | None
    status: str


@dataclass(frozen=True)
class MoreTime:
    """An offer to extend a purchase: its new end, its fee in US dollars or None for another currency, and its ID."""

    id: str
    start: datetime | None
    end: datetime | None
    hours: int | None
    usd: Decimal | None


def buy(offer: Offer, name: str) -> str:
    """Buy an offering, and return the ID of the block's reservation or the ARN of the plan, which is called `name`.

    AWS charges the fee at once, and neither can be cancelled. Raises UsageError if AWS refuses.
    """
    with asking(f"the offering {offer.id} cannot be bought", permissions=_TO_BUY, whole=True) as client:
        if offer.kind is CapacityKind.CAPACITY_BLOCK:
            bought = client("ec2", offer.region).purchase_capacity_block(
                CapacityBlockOfferingId=offer.id,
                InstancePlatform="Linux/UNIX",
                TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": [{"Key": "Name", "Value": name}]}],
            )
            # A block of several parts has a reservation for each. The group of a platform file takes one.
            return str(bought["CapacityReservation"]["CapacityReservationId"])
        made = client("sagemaker", offer.region).create_training_plan(
            TrainingPlanName=name[-_LONGEST_NAME:].lstrip("-"), TrainingPlanOfferingId=offer.id
        )
        return str(made["TrainingPlanArn"])


def extensions_of(purchase: str, region: str, hours: int) -> list[MoreTime]:
    """Return the offers to extend a Capacity Block or a training plan. Raises UsageError for another ID."""
    with asking(f"extensions of {purchase}", permissions=_TO_READ) as client:
        if plan := _PLAN.fullmatch(purchase):
            sagemaker = client("sagemaker", plan["region"])
            answer = sagemaker.search_training_plan_offerings(TrainingPlanArn=purchase, DurationHours=hours)
            return [
                MoreTime(
                    each["TrainingPlanExtensionOfferingId"],
                    each.get("StartDate"),
                    each.get("EndDate"),
                    each.get("DurationHours"),
                    _dollars(each),
                )
                for each in answer.get("TrainingPlanExtensionOfferings", [])
            ]
        _check_block(purchase)
        pages = client("ec2", region).get_paginator("describe_capacity_block_extension_offerings")
        return [
            MoreTime(
                each["CapacityBlockExtensionOfferingId"],
                each.get("CapacityBlockExtensionStartDate"),
                each.get("CapacityBlockExtensionEndDate"),
                each.get("CapacityBlockExtensionDurationHours"),
                _dollars(each),
            )
            for page in pages.paginate(CapacityReservationId=purchase, CapacityBlockExtensionDurationHours=hours)
            for each in page["CapacityBlockExtensionOfferings"]
        ]


def extend(purchase: str, region: str, extension: MoreTime) -> None:
    """Buy more time for a purchase. Raises UsageError if AWS refuses."""
    with asking(f"{purchase} cannot be extended", permissions=_TO_BUY, whole=True) as client:
        if plan := _PLAN.fullmatch(purchase):
            client("sagemaker", plan["region"]).extend_training_plan(TrainingPlanExtensionOfferingId=extension.id)
            return
        client("ec2", region).purchase_capacity_block_extension(
            CapacityBlockExtensionOfferingId=extension.id, CapacityReservationId=purchase
        )


def read_purchase(purchase: str, region: str) -> Purchase:
    """Return a Capacity Block or a training plan of the account. Raises UsageError for an unknown ID."""
    with asking(purchase, permissions=_TO_READ) as client:
        if plan := _PLAN.fullmatch(purchase):
            found = client("sagemaker", plan["region"]).describe_training_plan(TrainingPlanName=plan["name"])
            return _of_plan(found, zone_ids(client("ec2", plan["region"])))
        _check_block(purchase)
        ec2 = client("ec2", region)
        (block,) = ec2.describe_capacity_reservations(CapacityReservationIds=[purchase])["CapacityReservations"]
        zone = block["AvailabilityZone"]
        return Purchase(
            CapacityKind.CAPACITY_BLOCK,
            purchase,
            block["InstanceType"],
            # Before its start, a block has no instances, and its size is in a tag.
            block["TotalInstanceCount"] or _tagged_size(block.get("Tags", [])),
            (block.get("AvailabilityZoneId") or zone_ids(ec2).get(zone, zone),),
            block.get("StartDate"),
            block.get("EndDate"),
            block["State"],
        )


def _of_plan(plan: dict[str, Any], zones: dict[str, str]) -> Purchase:
    parts = plan.get("ReservedCapacitySummaries", [])
    return Purchase(
        CapacityKind.TRAINING_PLAN,
        plan["TrainingPlanArn"],
        parts[0]["InstanceType"].removeprefix("ml.") if parts else "",
        max((part["TotalInstanceCount"] for part in parts), default=0),
        tuple(
            dict.fromkeys(
                part.get("AvailabilityZoneId") or zones.get(part.get("AvailabilityZone", ""), "") for part in parts
            )
        ),
        plan.get("StartTime"),
        plan.get("EndTime"),
        plan["Status"],
    )


def _tagged_size(tags: Sequence[dict[str, str]]) -> int:
    """Return the size of a block that has not started.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-using.html (read 2026-11-22)
    """
    tag = "aws:ec2capacityreservation:incrementalRequestedQuantity"
    return next((int(each["Value"]) for each in tags if each["Key"] == tag), 0)


def _check_block(purchase: str) -> None:
    if not re.fullmatch(r"cr-([0-9a-f]{8}|[0-9a-f]{17})", purchase):
        why = "it is neither the ID of a Capacity Block nor the ARN of a training plan"
        raise usage_error(purchase, why=why, fix="write cr-0123456789abcdef0, or the whole ARN")


def _dollars(offered: dict[str, Any]) -> Decimal | None:
    if offered.get("CurrencyCode", "USD") != "USD" or "UpfrontFee" not in offered:
        return None
    return Decimal(offered["UpfrontFee"])
