"""A deployed platform, as its checks see it."""

from __future__ import annotations

from dataclasses import dataclass

from trainway.preflight.aws import NotAnswered
from trainway.preflight.check import Inquiry
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff


@dataclass(frozen=True)
class DeployedInquiry(Inquiry):
    """An inquiry into a deployed platform.

    `told` is the hand-off that the last deploy wrote for launchers, or the error of reading it.
    """

    told: HandOff | UsageError | None = None


def hand_off_of(inquiry: Inquiry) -> HandOff:
    """Return the hand-off. Raises NotAnswered without one, which the check of the hand-off reports."""
    if isinstance(inquiry, DeployedInquiry) and isinstance(inquiry.told, HandOff):
        return inquiry.told
    raise NotAnswered("ssm:GetParameter", "the hand-off cannot be read", "mend what hand-off reports first")
