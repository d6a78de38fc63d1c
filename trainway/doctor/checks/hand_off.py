"""What the last deploy wrote for launchers."""

from __future__ import annotations

from collections.abc import Iterator

from trainway import __version__
from trainway.doctor.checks.table import check
from trainway.doctor.inquiry import DeployedInquiry
from trainway.preflight.check import Inquiry
from trainway.preflight.finding import AccountFinding, error, note
from trainway.spec.errors import UsageError


@check("ssm:GetParameter", "s3:GetObject")
def hand_off(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The platform is deployed, and this version of Trainway reads what the deploy wrote for launchers."""
    told = inquiry.told if isinstance(inquiry, DeployedInquiry) else None
    if isinstance(told, UsageError):
        what, *lines = str(told).splitlines()
        why, fix = (line.strip().partition(": ")[2] for line in lines)
        yield error(what, why=why, fix=fix)
    elif told is not None and told.trainway is not None and told.trainway.version != __version__:
        yield note(
            f"Trainway {told.trainway.version} deployed the platform",
            why=f"this is Trainway {__version__}, which can launch on it",
            fix="nothing, or deploy again with this version: docs/upgrades.md",
        )
