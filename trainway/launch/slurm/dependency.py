"""A job that starts after another run has succeeded."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from trainway.launch.program.request import Request
from trainway.launch.registry.find import find_run
from trainway.launch.runs.run_directory import read_launch
from trainway.launch.slurm.watch import state
from trainway.launch.target.protocol import Handle, Phase
from trainway.spec.errors import UsageError, usage_error


@dataclass(frozen=True)
class Earlier:
    """The run that has to succeed first: its name, and its handle."""

    run: str
    handle: Handle

    @property
    def directives(self) -> list[str]:
        """Return the options of sbatch. With them, Slurm cancels a job whose dependency can never be satisfied.

        https://slurm.schedmd.com/sbatch.html, --dependency and --kill-on-invalid-dep (read 2026-11-23)
        """
        return [f"dependency=afterok:{self.handle['job']},singleton", "kill-on-invalid-dep=yes"]

    @property
    def check(self) -> list[str]:
        """Return the lines that end a script if the earlier run was stopped. Slurm takes such a run for a success."""
        outcome = shlex.quote(str(PurePosixPath(self.handle["directory"]) / "outcome"))
        return [
            f"earlier=$(cat {outcome} 2>/dev/null) || earlier=unknown",
            "if [[ $earlier != succeeded ]]; then",
            f"""  echo "failed: {self.run}, after which the run starts, has the outcome: $earlier" >"$run/outcome\"""",
            "  exit 1",
            "fi",
        ]


def earlier_run(request: Request, name: str) -> Earlier:
    """Return the run of this name. Raises UsageError if it was not launched on the same Slurm cluster."""
    what = f"{request.program.name} cannot start after {name}"
    run = find_run(name)
    record = read_launch(run)
    handle: Handle = record["handle"]
    if record["target"] != "slurm" or handle["cluster"] != request.hand_off.cluster.name:
        where = handle.get("cluster", record["target"])
        why = f"{name} runs on {where}, and Slurm knows the jobs of its own cluster only"
        raise usage_error(what, why=why, fix="launch it when the other run has ended")
    return Earlier(run.name, handle)


def has_succeeded(request: Request, earlier: Earlier) -> bool:
    """Return whether the earlier run has succeeded. False if it has not ended.

    Raises UsageError if it has ended in another way, because the job would never start.
    """
    found = state(earlier.handle)
    if found.phase in (Phase.FAILED, Phase.STOPPED, Phase.GONE):
        raise _never(request, earlier, found.phase, found.reason)
    return found.phase is Phase.SUCCEEDED


def _never(request: Request, earlier: Earlier, phase: Phase, reason: str) -> UsageError:
    what = f"{request.program.name} cannot start after {earlier.run}"
    why = f"it is {phase.value}" + (f": {reason}" if reason else "")
    return usage_error(what, why=why, fix=f"`trainway resume {earlier.run}` continues it, or leave --after out")
