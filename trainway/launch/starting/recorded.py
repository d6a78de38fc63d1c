"""The records of the runs of a launch: each run has a name of its own before anything is submitted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

from trainway.launch.platform.locations import team_of
from trainway.launch.program.request import Request
from trainway.launch.registry.connections import registry_of
from trainway.launch.registry.find import launch_of
from trainway.launch.registry.owner import owner_of_run
from trainway.launch.registry.record import RunRecord
from trainway.launch.registry.store import NameTaken, Registry
from trainway.launch.runs.run_directory import write_launch
from trainway.spec.errors import usage_error


@dataclass
class Recorded:
    """A request whose run has a record on its platform."""

    request: Request
    registry: Registry
    record: RunRecord
    is_new: bool

    def submitted(self, launch: dict[str, Any]) -> None:
        """Write down that the target has taken the run. `launch` is the content of its launch.json."""
        self.record = self.record.taken(launch)
        self.registry.write(self.record)
        write_launch(self.request.directory_here, launch_of(self.record, self.registry))


@contextmanager
def recorded(requests: Sequence[Request], *, named: bool, resumed: bool) -> Iterator[list[Recorded]]:
    """Record the runs of requests, and give a run another name if its team has one of that name already.

    A name that a person gave (`named`) is refused instead, except of a run that is `resumed`. If the block raises, the
    runs that were not submitted leave no record, and no directory on this machine.

    Raises UsageError if the records cannot be written.
    """
    owner = owner_of_run()
    made = list[Recorded]()
    try:
        for request in requests:
            registry = registry_of(request.hand_off)
            if resumed:
                made.append(_resumed(request, registry, owner))
            else:
                made.append(_new(request, registry, owner, named=named))
        yield made
    finally:
        for each in made:
            if each.is_new and each.record.launch is None:
                each.registry.release(each.record)
                if not (each.request.directory_here / "launch.json").exists():
                    shutil.rmtree(each.request.directory_here, ignore_errors=True)


def _new(request: Request, registry: Registry, owner: str, *, named: bool) -> Recorded:
    for number in count(1):
        run = request.run if number == 1 else f"{request.run}-{number}"
        record = _record(replace(request, run=run), owner)
        try:
            registry.reserve(record)
        except NameTaken:
            if not named:
                continue
            taken = registry.read(run)
            who = f", which {taken.owner} launched at {taken.started}" if taken else ""
            raise usage_error(
                f"the run cannot be called {run}",
                why=f"there is a run of this name{who}",
                fix=f"choose another name; `trainway resume {run}` continues that run",
            ) from None
        return Recorded(replace(request, run=run), registry, record, is_new=True)
    raise AssertionError("count() has no end")


def _resumed(request: Request, registry: Registry, owner: str) -> Recorded:
    """Return the record of a run that is resumed. A run of an earlier release without a record gets one."""
    team = team_of(request.hand_off, request.program.team)
    known = replace(registry, teams=(team,) if team else ()).read(request.run)
    if known is None:
        return Recorded(request, registry, _record(request, owner), is_new=False)
    return Recorded(request, registry, replace(known, attempts=known.attempts + 1), is_new=False)


def _record(request: Request, owner: str) -> RunRecord:
    return RunRecord(
        run=request.run,
        team=team_of(request.hand_off, request.program.team),
        owner=owner,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        files={"job.yaml": request.job_text, **request.kept_files},
    )
