"""What a check is, what it looks at, and how the checks run side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from trainway.preflight.aws import AwsQuestions, NotAnswered
from trainway.preflight.finding import AccountFinding, not_checked
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff_names import parameter_name
from trainway.spec.platform import Platform

# After so many seconds, what has not been answered is not checked.
SECONDS: Final = 25.0


@dataclass(frozen=True)
class Inquiry:
    """A platform, the account that it is deployed to, and the time, in UTC."""

    platform: Platform
    catalogue: Catalogue
    aws: AwsQuestions
    now: datetime
    _known: dict[str, bool] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_deployed(self) -> bool:
        """Whether the platform is deployed, so that it uses what the account has. False if AWS does not tell."""
        with self._lock:
            if "deployed" not in self._known:
                try:
                    name = parameter_name(self.platform.name)
                    found = self.aws.ask("ssm", "get_parameter", Name=name, absent=["ParameterNotFound"])
                except NotAnswered:
                    found = None
                self._known["deployed"] = found is not None
            return self._known["deployed"]


CheckFunction = Callable[[Inquiry], Iterator[AccountFinding]]


@dataclass(frozen=True)
class AccountCheck:
    """A check: its function, and the IAM actions that it calls."""

    function: CheckFunction
    permissions: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name by which people speak of the check, for example `training-plans`."""
        return self.function.__name__.replace("_", "-")

    @property
    def summary(self) -> str:
        """Return what the check is about: the first paragraph of its docstring, on one line."""
        return " ".join((self.function.__doc__ or "").partition("\n\n")[0].split())


class CheckTable(list[AccountCheck]):
    """The checks of a command. A module adds its own as it is imported."""

    def check(self, *permissions: str) -> Callable[[CheckFunction], CheckFunction]:
        """Return a decorator that adds a function to the table, with the IAM actions that it calls."""

        def add(function: CheckFunction) -> CheckFunction:
            self.append(AccountCheck(function, permissions))
            return function

        return add


def run_checks(
    checks: Sequence[AccountCheck], inquiry: Inquiry | None, *, seconds: float = SECONDS
) -> tuple[AccountFinding, ...]:
    """Return what the checks find, in their order. All run at once, and none for longer than `seconds`.

    A check that is not through by then is told as not checked. So is each check if there is no account to ask.
    """
    if inquiry is None:
        why, fix = "AWS cannot be asked", "mend that, and run the command again"
        return tuple(replace(not_checked(each.summary, why=why, fix=fix), check=each.name) for each in checks)
    found: dict[str, list[AccountFinding]] = {each.name: [] for each in checks}
    # A thread that waits for AWS must not keep the command from ending.
    threads = {
        each.name: threading.Thread(target=_collect, args=(each, inquiry, found[each.name]), daemon=True)
        for each in checks
    }
    deadline = time.monotonic() + seconds
    for thread in threads.values():
        thread.start()
    for thread in threads.values():
        thread.join(max(0.0, deadline - time.monotonic()))
    return tuple(_with_late(checks, threads, {name: tuple(each) for name, each in found.items()}, seconds))


def _collect(check: AccountCheck, inquiry: Inquiry, found: list[AccountFinding]) -> None:
    try:
        for each in check.function(inquiry):
            found.append(replace(each, check=check.name))
    except NotAnswered as missing:
        found.append(replace(not_checked(check.summary, why=missing.why, fix=missing.fix), check=check.name))
    except Exception as fault:
        # One check must not hide what the others find.
        why = f"the check failed: {type(fault).__name__}: {fault}"
        fix = "report it, with the output of this command"
        found.append(replace(not_checked(check.summary, why=why, fix=fix), check=check.name))


def _with_late(
    checks: Sequence[AccountCheck],
    threads: Mapping[str, threading.Thread],
    found: Mapping[str, tuple[AccountFinding, ...]],
    seconds: float,
) -> Iterator[AccountFinding]:
    for each in checks:
        yield from found[each.name]
        if threads[each.name].is_alive():
            why = f"AWS did not answer within {seconds:g} s"
            late = not_checked(
                each.summary, why=why, fix="check the network of this machine, and run the command again"
            )
            yield replace(late, check=each.name)
