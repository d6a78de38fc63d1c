"""How often a run has started without a new checkpoint, over the life of all its nodes.

A target that starts a run again counts its failures and never begins anew: a run of months would end at its tenth,
although each took it further. So the target has no limit of its own, and the first node counts in the directory of the
run, which every target brings to the next start. The newest checkpoint is that of `run_record.py`.

Slurm tells the nodes of a job to stop when it has lost one of them, as it does before it preempts the job. So a start
under Slurm counts in any case. A job that is preempted saves a checkpoint.
"""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from training.errors import StorageFailed
from training.hosts.run_record import read_record

RESTARTS = "TRAINWAY_RESTARTS"
"""The environment variable with the restarts that a run has without a new checkpoint. Without it, nothing counts."""
_FILE = "restarts.json"
_SLURM_JOB = "SLURM_JOB_ID"
# The file with the name of the launch is beside the job file: trainway/launch/kubernetes/submit.py.
_LAUNCH = "launch-id"


@dataclass(frozen=True)
class _Starts:
    """The starts of a launch since its newest checkpoint, which was that of a step, or 0."""

    launch: str
    step: int
    count: int


def count_start(run: Path) -> str | None:
    """Count a start of the run on its first node. Return why it may not start again, or None if it may.

    A run in whose directory nothing can be written or read starts, and says why by itself.
    """
    if RESTARTS not in os.environ or not _is_first_node():
        return None
    allowed = int(os.environ[RESTARTS])
    try:
        step = max(read_record(run).checkpoints, default=0)
        before = _read(run)
        launch = _launch()
        goes_on = before.launch == launch and before.step >= step
        starts = _Starts(launch, max(step, before.step) if goes_on else step, before.count + 1 if goes_on else 1)
        _write(run, starts)
    except (OSError, StorageFailed):
        return None
    if starts.count <= allowed + 1:
        return None
    since = f"the checkpoint of step {starts.step}" if starts.step else "its launch, and has no checkpoint"
    return f"it started {starts.count - 1} times since {since}, and life_cycle.restarts is {allowed}"


def take_back_start(run: Path) -> None:
    """Take back the start that was counted last, because the run was told to stop."""
    if RESTARTS not in os.environ or not _is_first_node() or _SLURM_JOB in os.environ:
        return
    try:
        before = _read(run)
        _write(run, replace(before, count=max(0, before.count - 1)))
    except OSError:
        return


def _is_first_node() -> bool:
    return (os.environ.get("JOB_COMPLETION_INDEX") or os.environ.get("SLURM_NODEID") or "0") == "0"


def _launch() -> str:
    """Return the name of the launch. A job of Slurm has one number, however often Slurm queues it again."""
    if job := os.environ.get(_SLURM_JOB):
        return job
    try:
        return Path(os.environ.get("TRAINWAY_JOB", "")).with_name(_LAUNCH).read_text().strip()
    except (OSError, ValueError):
        return ""


def _read(run: Path) -> _Starts:
    try:
        found = json.loads((run / _FILE).read_text())
        return _Starts(str(found["launch"]), int(found["step"]), int(found["count"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # A file that is damaged allows a few starts more.
        return _Starts("", 0, 0)


def _write(run: Path, starts: _Starts) -> None:
    run.mkdir(parents=True, exist_ok=True)
    written = run / f"{_FILE}.{os.getpid()}"
    written.write_text(json.dumps(asdict(starts)))
    written.replace(run / _FILE)
