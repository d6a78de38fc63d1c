"""All checks of a deployed platform and of this machine."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from trainway.doctor.checks import DEPLOYED_CHECKS
from trainway.doctor.inquiry import DeployedInquiry
from trainway.doctor.tools import TOOLS, tools
from trainway.launch.platform.hand_off import read_hand_off
from trainway.preflight.account import require_names
from trainway.preflight.aws import AwsQuestions, NotAnswered
from trainway.preflight.check import SECONDS, run_checks
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff
from trainway.spec.platform import Platform


def doctor(
    platform: Platform, catalogue: Catalogue, *, skip: Collection[str] = (), seconds: float = SECONDS
) -> tuple[tuple[AccountFinding, ...], str]:
    """Return what is wrong with a deployed platform and with the tools of this machine, and which account was asked.

    `skip` are names of checks that do not run. Raises UsageError for a name that no check has.
    """
    require_names(skip, [TOOLS, *(each.name for each in DEPLOYED_CHECKS)])
    wanted = [each for each in DEPLOYED_CHECKS if each.name not in skip]
    found = () if TOOLS in skip else tuple(replace(each, check=TOOLS) for each in tools(platform))
    try:
        aws = AwsQuestions(platform.region)
    except NotAnswered as missing:
        told = error("AWS cannot be asked", why=missing.why, fix=missing.fix)
        return (*found, replace(told, check="credentials"), *run_checks(wanted, None)), platform.region
    read: HandOff | UsageError
    try:
        read = read_hand_off(platform)
    except UsageError as failure:
        read = failure
    inquiry = DeployedInquiry(platform, catalogue, aws, datetime.now(UTC), told=read)
    return (*found, *run_checks(wanted, inquiry, seconds=seconds)), f"account {aws.number} in {platform.region}"
