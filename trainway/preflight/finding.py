"""What a check of the account or of a deployed platform finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trainway.spec.problems import KeyPath


class FindingLevel(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """The deploy fails, or the platform does not do what its file says."""
    WARNING = "warning"
    """The deploy may fail, or something is to be done soon."""
    NOTE = "note"
    """Something that is good to know before the deploy."""
    NOT_CHECKED = "not checked"
    """AWS was not asked, or did not answer."""


@dataclass(frozen=True)
class AccountFinding:
    """One finding: what is the case, why it matters, and the remedy.

    `key` is the key of the platform file that it is about, or None. `check` is the name of the check.
    """

    level: FindingLevel
    what: str
    why: str
    fix: str
    key: KeyPath | None = None
    check: str = ""


def error(what: str, *, why: str, fix: str, key: KeyPath | None = None) -> AccountFinding:
    """Return a finding because of which a deploy fails."""
    return AccountFinding(FindingLevel.ERROR, what, why, fix, key)


def warning(what: str, *, why: str, fix: str, key: KeyPath | None = None) -> AccountFinding:
    """Return a finding because of which a deploy may fail."""
    return AccountFinding(FindingLevel.WARNING, what, why, fix, key)


def note(what: str, *, why: str, fix: str, key: KeyPath | None = None) -> AccountFinding:
    """Return a finding that is good to know."""
    return AccountFinding(FindingLevel.NOTE, what, why, fix, key)


def not_checked(what: str, *, why: str, fix: str, key: KeyPath | None = None) -> AccountFinding:
    """Return a finding about what could not be found out."""
    return AccountFinding(FindingLevel.NOT_CHECKED, what, why, fix, key)
