"""The directory of one run: what was launched, and later its metrics, logs and report."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainway.spec.errors import usage_error

RUNS = Path("runs")


def default_run_directory(name: str) -> Path:
    """Return a directory below `runs`, named after the job and the time."""
    return RUNS / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def make_run_directory(job_text: str, run: Path, files: Mapping[str, str] | None = None) -> None:
    """Create the directory with the job file in it, and with `files` beside it.

    Raises UsageError for a directory that holds something other than a run. An earlier run is continued.
    """
    copy = run / "job.yaml"
    if run.exists() and any(run.iterdir()) and not copy.exists():
        raise usage_error(
            f"{run} cannot hold the run", why="it is not empty and not a run", fix="name another directory"
        )
    run.mkdir(parents=True, exist_ok=True)
    for name, text in {copy.name: job_text, **(files or {})}.items():
        (run / name).write_text(text, encoding="utf-8")


@contextmanager
def recorded_launch(
    run: Path,
    handle: Mapping[str, str],
    command: Sequence[str],
    environment: Mapping[str, str],
    options: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """Keep `launch.json` current while a job runs. The block sets `exit_status`, and `stopped_by` after a stop."""
    record: dict[str, Any] = {
        "target": "local",
        "handle": dict(handle),
        "command": list(command),
        "environment": dict(environment),
        "options": dict(options),
        "started": (started := now()),
        "first_started": _first_started(run, started),
        "ended": None,
        "exit_status": None,
    }
    write_launch(run, record)
    try:
        yield record
    finally:
        record["ended"] = now()
        write_launch(run, record)


def record_submission(
    run: Path, target: str, handle: Mapping[str, str], options: Mapping[str, Any], nodes: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Write down where a run was submitted to, how it is found there, and its options. Return what was written.

    `nodes` has the `count` and the `instance_type` of its nodes; None is this machine.
    """
    record: dict[str, Any] = {"target": target, "handle": dict(handle), "options": dict(options)}
    if nodes is not None:
        record["nodes"] = dict(nodes)
    started = now()
    record |= {"started": started, "first_started": _first_started(run, started), "ended": None}
    write_launch(run, record)
    return record


def _first_started(run: Path, started: str) -> str:
    """Return the time of the first launch of a run, before it was resumed."""
    try:
        before = read_launch(run)
    except (OSError, ValueError):
        return started
    return str(before.get("first_started") or before.get("started") or started)


def runs_below(directory: Path) -> list[Path]:
    """Return the directories of the runs that were launched from here, newest first."""
    found = [path.parent for path in directory.glob("*/launch.json")]
    return sorted(found, key=lambda run: str(read_launch(run)["started"]), reverse=True)


def run_here(name: str) -> Path | None:
    """Return the directory of a run that was launched from here, by name or path, or None if there is none."""
    for run in (RUNS / name, Path(name)):
        with suppress(OSError):  # the name is too long for a path
            if (run / "launch.json").is_file():
                return run
    return None


def directory_named(name: str) -> Path | None:
    """Return the directory of that name, or None if there is none."""
    with suppress(OSError):  # the name is too long for a path
        if Path(name).is_dir():
            return Path(name)
    return None


def run_named(name: str) -> Path:
    """Return the directory of a run by name or path. Raises UsageError if none was launched from here."""
    if run := run_here(name):
        return run
    known = ", ".join(run.name for run in runs_below(RUNS)[:3])
    fix = f"the newest are {known}" if known else "nothing was launched from this directory; go to where it was"
    raise usage_error(
        f"there is no run {name}", why=f"neither {RUNS / name} nor {name} is the directory of one", fix=fix
    )


def read_launch(run: Path) -> dict[str, Any]:
    """Return the content of a run's `launch.json`, which `recorded_launch` writes."""
    record: dict[str, Any] = json.loads((run / "launch.json").read_text(encoding="utf-8"))
    return record


def write_launch(run: Path, record: dict[str, Any]) -> None:
    """Write the `launch.json` of a run."""
    # Replace the file, because another command can read it at the same time.
    written = run / f".launch.json.{os.getpid()}"
    written.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    written.replace(run / "launch.json")


def now() -> str:
    """Return the time in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
