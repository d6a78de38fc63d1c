"""The checkpoints that a run had, by its own record, and what storage must therefore still have.

The record is `metrics.jsonl` in the directory of the run. Every target brings this file to the next start of the run:
the directory is on this machine, on a shared file system, or restored from the bucket. A file that the checkpoints'
own location held would vanish with them.

An event is written after its checkpoint is complete, so the record never names more than there was.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from training.errors import StorageFailed, UserError

METRICS_FILE = "metrics.jsonl"
FROM_SCRATCH = "TRAINWAY_FROM_SCRATCH"
"""The environment variable with a name for the launch that may begin at step 1 although the run had checkpoints.

A restart of that launch finds the name in the record, and is then a start as any other.
"""

NODE_SOURCES = ("memory", "disk")
"""The sources of a resume that are on the nodes, and are no checkpoints in storage."""


@dataclass
class CheckpointRecord:
    """The complete checkpoints in storage that a run had: the location of each, by its step.

    `from_scratch` has the names of the launches that began anew.
    """

    checkpoints: dict[int, str] = field(default_factory=dict)
    from_scratch: set[str] = field(default_factory=set)

    def _go_back(self, step: int) -> None:
        """Forget the checkpoints after a step. The run writes those steps again, and may delete damaged ones."""
        self.checkpoints = {each: location for each, location in self.checkpoints.items() if each <= step}

    def take(self, line: bytes) -> None:
        """Take what a line of metrics.jsonl says about checkpoints."""
        kind = line[:24].split(b'"', 4)[3:4]
        if kind not in ([b"checkpoint"], [b"resumed"], [b"rewound"], [b"from_scratch"]):
            return
        event = json.loads(line)
        match event["event"]:
            case "checkpoint":
                self.checkpoints[event["step"]] = event["location"]
            case "resumed":
                self._go_back(event["step"])
                if event["source"] not in NODE_SOURCES:
                    self.checkpoints[event["step"]] = event["source"]
            case "rewound":
                self._go_back(event["to_step"])
            case "from_scratch":
                self.checkpoints = {}
                self.from_scratch.add(event["launch"])


def read_record(run: Path) -> CheckpointRecord:
    """Return the record in the directory of a run. It is empty for a new run.

    Raises:
        StorageFailed: the file cannot be read.
    """
    record, path = CheckpointRecord(), run / METRICS_FILE
    try:
        with path.open("rb") as lines:
            for line in lines:
                # A host that lost power can leave an incomplete line.
                if line.endswith(b"\n"):
                    record.take(line)
    except FileNotFoundError:
        return record
    except (OSError, ValueError, KeyError) as error:
        raise StorageFailed(
            f"{path}: the record of the run cannot be read: {error!r}. Restore the file, or move it away and lose the "
            "metrics so far"
        ) from error
    return record


@dataclass(frozen=True)
class ExpectedCheckpoints:
    """What storage must have at the start of a run, and what it has.

    `newest` and `oldest` are the first and the last of the newest checkpoints that the run keeps. `is_left` says that
    at least files of one of them are there. `found` are the steps of the complete checkpoints. `begins_anew` says that
    this launch may find none.
    """

    run: str
    location: str
    newest: int | None = None
    newest_location: str = ""
    oldest: int = 0
    is_left: bool = False
    is_newest_left: bool = True
    found: tuple[int, ...] = ()
    begins_anew: bool = False

    def check(self, step: int | None) -> None:
        """Check the step that the run is about to resume from, or None.

        Raises:
            UserError: the run had newer checkpoints, and none of those that it kept is there.
        """
        if self.newest is None or (step is not None and (step >= self.oldest or self.is_left)):
            return
        raise UserError(
            f"{self.newest_location}: the checkpoint of step {self.newest} is gone. The run completed it, as "
            f"{self.run}/{METRICS_FILE} says, and {self.location} has {self._what_is_there()}. Mount or restore it, or "
            f"launch the job as a new run whose checkpoint.location has it. {self._otherwise()}"
        )

    def check_empty(self) -> None:
        """Check that a launch that begins anew finds no checkpoint, which its restarts would take for their own.

        Raises:
            UserError: there is one.
        """
        if self.found:
            raise UserError(
                f"{self.location}: the run cannot begin at step 1 here, because a restart would resume from "
                f"{self._what_is_there()}. Move what is there away, or launch the job as a new run with another "
                "checkpoint.location"
            )

    def older(self, step: int) -> str | None:
        """Return a warning if the run resumes from `step` because the newest checkpoint has vanished, or None."""
        if self.newest is None or step >= self.newest or self.is_newest_left:
            return None
        return f"{self.newest_location} is gone: the run resumes from step {step}, and not from step {self.newest}"

    def _what_is_there(self) -> str:
        if not self.found:
            return "no complete checkpoint"
        steps = ", ".join(map(str, sorted(self.found)))
        return f"the checkpoint of step {steps}" if len(self.found) == 1 else f"the checkpoints of the steps {steps}"

    def _otherwise(self) -> str:
        if self.found:
            return f"A new run at this location resumes from step {max(self.found)}"
        return f"To begin at step 1 instead, use `trainway resume {Path(self.run).name} --from-scratch`"


def expected_in(
    location: str, run: Path, keep: int, complete: Sequence[int], begun: Sequence[int]
) -> ExpectedCheckpoints:
    """Return what a location must have for a run that keeps the newest `keep` checkpoints.

    `complete` are the steps of the complete checkpoints there, and `begun` those of all directories that have files.
    """
    record = read_record(run)
    kept = sorted(record.checkpoints)[-keep:]
    launch = os.environ.get(FROM_SCRATCH)
    expected = ExpectedCheckpoints(
        str(run),
        location,
        found=tuple(complete),
        begins_anew=launch is not None and launch not in record.from_scratch,
    )
    if not kept:
        return expected
    return ExpectedCheckpoints(
        **vars(expected)
        | {
            "newest": kept[-1],
            "newest_location": record.checkpoints[kept[-1]],
            "oldest": kept[0],
            "is_left": any(step in begun for step in kept),
            "is_newest_left": kept[-1] in begun,
        }
    )
