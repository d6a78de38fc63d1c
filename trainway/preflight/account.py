"""All checks of the account of this shell, for one platform."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from trainway.preflight.aws import AwsQuestions, NotAnswered
from trainway.preflight.check import SECONDS, Inquiry, run_checks
from trainway.preflight.checks import CHECKS
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform


def preflight(
    platform: Platform, catalogue: Catalogue, *, skip: Collection[str] = (), seconds: float = SECONDS
) -> tuple[tuple[AccountFinding, ...], str]:
    """Return what the account of this shell lacks for a platform, and a few words that say which account it is.

    `skip` are names of checks that do not run. Raises UsageError for a name that no check has.
    """
    require_names(skip, [each.name for each in CHECKS])
    wanted = [each for each in CHECKS if each.name not in skip]
    try:
        account = AwsQuestions(platform.region)
    except NotAnswered as missing:
        told = error("AWS cannot be asked", why=missing.why, fix=missing.fix)
        others = [each for each in wanted if each.name != "credentials"]
        return (replace(told, check="credentials"), *run_checks(others, None)), platform.region
    inquiry = Inquiry(platform, catalogue, account, datetime.now(UTC))
    return run_checks(wanted, inquiry, seconds=seconds), f"account {account.number} in {platform.region}"


def require_names(names: Collection[str], known: Collection[str]) -> None:
    """Raise UsageError if one of the names is that of no check."""
    for name in names:
        if name not in known:
            why = f"there is no check {name}"
            raise usage_error(f"--skip {name}", why=why, fix=f"name one of {', '.join(sorted(known))}")
