"""`capacity` of a node group: its purchase option."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, Discriminator, Field, PlainSerializer, Tag

from trainway.spec.values import Matches, Section, wrong


def _to_the_minute(value: datetime) -> datetime:
    if value.second or value.microsecond:
        raise wrong("it is not a whole minute", "write it as in 2026-12-01T11:30Z")
    return value.astimezone(UTC)


def minute(value: datetime) -> str:
    """Format a time in UTC as the platform file has it, for example `2026-12-01T11:30Z`."""
    return value.strftime("%Y-%m-%dT%H:%MZ")


UtcMinute = Annotated[
    AwareDatetime, AfterValidator(_to_the_minute), PlainSerializer(minute, return_type=str, when_used="json")
]


class TimedCapacity(Section):
    """Capacity that has a start and an end, which the file may name."""

    start: UtcMinute | None = Field(
        None, description="When the capacity starts, for example 2026-12-01T11:30Z. Only with `end`."
    )
    end: UtcMinute | None = Field(None, description="When the capacity ends, for example 2026-12-08T11:30Z.")


class Reservation(Section):
    """An On-Demand Capacity Reservation of your account."""

    reservation: Annotated[
        str,
        Matches(
            r"cr-([0-9a-f]{8}|[0-9a-f]{17})",
            "it is not the id of a capacity reservation",
            "write it as in cr-0123456789abcdef0",
        ),
    ]


class CapacityBlock(TimedCapacity):
    """An EC2 Capacity Block for ML: accelerated nodes bought for some days ahead of time.

    With `start` and `end`, the group is deployed without nodes. A schedule adds `count` nodes at the start, and another
    one drains them before the end.
    """

    capacity_block: Annotated[
        str,
        Matches(
            r"cr-([0-9a-f]{8}|[0-9a-f]{17})",
            "it is not the id of a Capacity Block, which is that of its capacity reservation",
            "write it as in cr-0123456789abcdef0",
        ),
    ]
    drain_minutes: int | None = Field(
        None,
        ge=1,
        description="Minutes before `end` at which the nodes are drained: each job gets SIGTERM, saves a checkpoint, "
        "and ends. Default: 45, and 75 for instances of an UltraServer.",
    )


class TrainingPlan(TimedCapacity):
    """A SageMaker training plan whose target is HyperPod. HyperPod adds its nodes at the start by itself."""

    training_plan: Annotated[
        str,
        Matches(
            # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingPlan.html (read 2026-11-30)
            r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:training-plan/(?=.{1,64}$)[A-Za-z0-9](-*[A-Za-z0-9])*",
            "it is not the ARN of a training plan",
            "write it as in arn:aws:sagemaker:us-west-2:111122223333:training-plan/NAME",
        ),
    ]


_BY_KEY: dict[str, type[Section]] = {
    "reservation": Reservation,
    "capacity_block": CapacityBlock,
    "training_plan": TrainingPlan,
}


def _capacity_tag(value: Any) -> str | None:
    """Return the name of the class, which is no key: the loader looks for keys in the place of an error."""
    if isinstance(value, dict) and len(keys := set(_BY_KEY) & {str(key) for key in value}) == 1:
        return _BY_KEY[keys.pop()].__name__
    if isinstance(value, BaseModel):
        return type(value).__name__
    if value in ("on-demand", "spot"):
        return "market"
    return None


Capacity = Annotated[
    Annotated[Literal["on-demand", "spot"], Tag("market")]
    | Annotated[Reservation, Tag(Reservation.__name__)]
    | Annotated[CapacityBlock, Tag(CapacityBlock.__name__)]
    | Annotated[TrainingPlan, Tag(TrainingPlan.__name__)],
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
    """Return the purchase option as the catalogue spells it: `on-demand`, `spot`, `reservation`, `capacity-block`, …"""
    if isinstance(capacity, str):
        return capacity
    return next(key for key, section in _BY_KEY.items() if isinstance(capacity, section)).replace("_", "-")
