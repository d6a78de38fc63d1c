"""The ways to buy nodes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Tag

from trainway.spec.values import Matches, Section


class Reservation(Section):
    """An On-Demand Capacity Reservation of your account."""

    reservation: Annotated[
        str,
        Matches(
            r"cr-[0-9a-f]{8,17}", "it is not the id of a capacity reservation", "write it as in cr-0123456789abcdef0"
        ),
    ]


class CapacityBlock(Section):
    """An EC2 Capacity Block for ML: accelerated nodes bought for some days ahead of time."""

    capacity_block: Annotated[
        str,
        Matches(
            r"cr-[0-9a-f]{8,17}",
            "it is not the id of a Capacity Block, which is that of its capacity reservation",
            "write it as in cr-0123456789abcdef0",
        ),
    ]


class TrainingPlan(Section):
    """A SageMaker training plan whose target is HyperPod."""

    training_plan: Annotated[
        str,
        Matches(
            r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:training-plan/.+",
            "it is not the ARN of a training plan",
            "write it as in arn:aws:sagemaker:us-west-2:111122223333:training-plan/NAME",
        ),
    ]


_CAPACITY_KEYS = {"reservation", "capacity_block", "training_plan"}


def _capacity_tag(value: Any) -> str | None:
    if isinstance(value, dict) and len(value) == 1:
        key = next(iter(value))
        if key in _CAPACITY_KEYS:
            return str(key)
    if isinstance(value, BaseModel):
        return next(iter(type(value).model_fields))
    if value in ("on-demand", "spot"):
        return "market"
    return None


Capacity = Annotated[
    Annotated[Literal["on-demand", "spot"], Tag("market")]
    | Annotated[Reservation, Tag("reservation")]
    | Annotated[CapacityBlock, Tag("capacity_block")]
    | Annotated[TrainingPlan, Tag("training_plan")],
    Discriminator(
        _capacity_tag,
        custom_error_type="platform",
        custom_error_message="it is not a kind of capacity",
        custom_error_context={
            "remedy": "write on-demand, spot, {reservation: cr-…}, {capacity_block: cr-…} or {training_plan: arn:…}"
        },
    ),
]


def capacity_kind(capacity: Reservation | CapacityBlock | TrainingPlan | str) -> str:
    """How nodes are paid for, as the catalogue spells it: `on-demand`, `spot`, `reservation`, `capacity-block`, …"""
    return capacity if isinstance(capacity, str) else next(iter(type(capacity).model_fields)).replace("_", "-")
