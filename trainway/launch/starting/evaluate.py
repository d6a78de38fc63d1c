"""Follow the checkpoints of a run, and launch the evaluation of each complete checkpoint exactly once.

The records of the evaluations, whose names contain the run and the step, show which evaluations were launched.
Therefore, a process that was killed can be started again.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trainway.launch.job_file.programs import evaluation_program
from trainway.launch.job_file.sweep import Point
from trainway.launch.platform.hand_off import read_hand_off
from trainway.launch.program.locations import needs_hand_off
from trainway.launch.program.on_checkpoint import EvaluatedCheckpoint, OnCheckpoint
from trainway.launch.program.program import Program
from trainway.launch.registry.find import find_run, platform_of, registry_in, written_state
from trainway.launch.runs.run_directory import read_launch
from trainway.launch.runs.status import how_it_ended
from trainway.launch.starting.checkpoints import CompleteCheckpoint, find_checkpoints, marker_location
from trainway.launch.starting.evaluations import Evaluated, evaluations_of, run_of_evaluation
from trainway.launch.starting.prepare import Launch
from trainway.launch.starting.run_code import recorded_evaluation_code
from trainway.launch.starting.start import adopt, platform_file_of, recorded_points, start
from trainway.launch.target.known import AnyTarget, target_named
from trainway.launch.target.protocol import Phase
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.handoff import HandOff

SECONDS_BETWEEN_LOOKS = float(os.environ.get("TRAINWAY_EVALUATE_SECONDS", "30"))
_SECONDS_HERE = 1.0
# A launch that was killed leaves a record without a job. A launch submits its job in less time than this.
_SECONDS_TO_SUBMIT = float(os.environ.get("TRAINWAY_SUBMIT_SECONDS", "600"))
# FSx exports a file some time after it was written.
_SECONDS_TO_EXPORT = 900
_MOST_TRIES = 5
_MOST_FAILED_LOOKS = 20


@dataclass
class Follower:
    """A run whose checkpoints are evaluated, and the evaluations that this process has seen."""

    run: Path
    launch: Mapping[str, Any]
    target: AnyTarget
    program: Program
    on_checkpoint: OnCheckpoint
    hand_off: HandOff | None
    say: Callable[[str], object]
    known: dict[int, Evaluated] = field(default_factory=dict)
    tries: dict[int, int] = field(default_factory=dict)
    given_up: dict[int, str] = field(default_factory=dict)
    children: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    seen: dict[int, CompleteCheckpoint] = field(default_factory=dict)

    @property
    def is_here(self) -> bool:
        """Return whether the run is on this machine, without a platform."""
        return not self.target.orchestrators

    def checkpoints(self) -> dict[int, CompleteCheckpoint]:
        """Return the complete checkpoints that this run has saved and that are to be evaluated, by step."""
        has_nodes = self.target.on_nodes_of_platform
        marker = marker_location(self.program, self.run, self.hand_off, is_here=self.is_here, has_nodes=has_nodes)
        found = find_checkpoints(marker, self.hand_off, self.program, is_here=self.is_here)
        # The location can contain checkpoints of an earlier run. Times in launch.json have whole seconds.
        began = datetime.fromisoformat(self.launch.get("first_started", self.launch["started"])).timestamp()
        every = self.on_checkpoint.every
        return {each.step: each for each in found if each.step % every == 0 and each.completed >= int(began)}

    def phase(self) -> tuple[Phase | None, Mapping[str, Any] | None]:
        """Return how the run ended, or None if it has not, and the state that it has written."""
        written = written_state(dict(self.launch), self.run.name)
        return how_it_ended(self.target.state(self.launch["handle"]).phase, written), written

    def request(self, checkpoint: CompleteCheckpoint) -> Launch:
        """Return the launch of the evaluation of a checkpoint."""
        evaluation = EvaluatedCheckpoint(self.run.name, checkpoint.step, checkpoint.location)
        program = evaluation_program(self.on_checkpoint, evaluation, self.program.team)
        options = self.launch["options"]
        archive = None if self.is_here else recorded_evaluation_code(self.run.name, options, program.code)
        return Launch(
            [Point(program, {})],
            platform_file_of(self.launch, self.target, f"the checkpoints of {self.run.name} cannot be evaluated"),
            run=run_of_evaluation(self.run, checkpoint.step, is_here=self.is_here),
            group=None if self.is_here else self.on_checkpoint.group,
            allow_tcp=options.get("allow_tcp", False),
            archive=archive,
            evaluation=evaluation,
        )


def follower_of(name: str, say: Callable[[str], object]) -> Follower:
    """Return the follower of a run. Raises UsageError for a run without evaluations."""
    run = find_run(name)
    launch = read_launch(run)
    target = target_named(launch["target"], cannot="evaluated")
    (point,) = recorded_points(run, launch["options"], is_here=not target.orchestrators)
    program = point.program
    if program.on_checkpoint is None:
        fix = "add `on_checkpoint` to the job file, and launch it: docs/evaluations.md"
        what = f"the checkpoints of {name} cannot be evaluated"
        raise usage_error(what, why="its job file has no section `on_checkpoint`", fix=fix)
    uses_platform = target.orchestrators or needs_hand_off(program)
    hand_off = read_hand_off(platform_of(launch)) if uses_platform else None
    return Follower(run, launch, target, program, program.on_checkpoint, hand_off, say)


def evaluate_step(name: str, step: int, say: Callable[[str], object] = print) -> int:
    """Launch the evaluation of one checkpoint of a run, and return the exit status.

    Raises UsageError if the run has no such complete checkpoint, or the checkpoint has an evaluation.
    """
    follower = follower_of(name, say)
    what = f"step {step} of {name} cannot be evaluated"
    for each in evaluations_of(follower.run, follower.launch):
        if each.step == step:
            fix = f"`trainway resume {each.run}` starts it again"
            raise usage_error(what, why=f"{each.run} evaluates it, and is {each.phase.value}", fix=fix)
    checkpoints = follower.checkpoints()
    if step not in checkpoints:
        has = ", ".join(map(str, checkpoints)) or "none"
        raise usage_error(what, why=f"the complete checkpoints are {has}", fix="name one of them, or wait for it")
    launch = follower.request(checkpoints[step])
    return start(follower.target, launch, {}, say)


def evaluate(name: str, say: Callable[[str], object] = print) -> int:
    """Launch the evaluation of each complete checkpoint of a run, until the run and its evaluations have ended.

    `say` gets a sentence for each evaluation that starts, ends, or cannot be launched. Returns 1 if one failed, or else
    0. Raises UsageError for a run without evaluations, and if its target or its storage does not answer any more.
    """
    follower, failed_looks, ended_at = follower_of(name, say), 0, None
    try:
        while True:
            try:
                # Read the phase before the checkpoints, so that the last checkpoint of a run is not missed.
                ended, written = follower.phase()
                waiting = _look(follower)
                failed_looks = 0
            except UsageError as error:
                failed_looks += 1
                if failed_looks == 1:
                    say(f"warning: {' '.join(str(error).split())}")
                if failed_looks == _MOST_FAILED_LOOKS:
                    raise
            else:
                ended_at = (ended_at or time.monotonic()) if ended else None
                if ended_at is not None and not waiting and not _lags(follower, written, ended_at):
                    break
            time.sleep(_SECONDS_HERE if follower.is_here else SECONDS_BETWEEN_LOOKS)
    finally:
        _end_children(follower)
    failed = [step for step, each in follower.known.items() if each.phase is not Phase.SUCCEEDED]
    return 1 if failed or follower.given_up else 0


def _look(follower: Follower) -> bool:
    """Launch the evaluations that can start now. Return whether an evaluation waits or runs."""
    for each in evaluations_of(follower.run, follower.launch, follower.known):
        before = follower.known.get(each.step)
        if before is None or before.phase is not each.phase:
            follower.say(_sentence(each))
        follower.known[each.step] = each
    checkpoints = follower.checkpoints()
    for step in set(follower.seen) - set(checkpoints) - set(follower.known) - set(follower.given_up):
        _give_up(follower, step, "it was deleted before it was evaluated. Keep more checkpoints, or raise `at_most`")
    follower.seen = {**follower.seen, **checkpoints}
    unsubmitted = [step for step, each in follower.known.items() if not each.is_submitted]
    for step in unsubmitted:
        if step in follower.seen:
            _take_over(follower, follower.seen[step])
    waiting = [step for step in checkpoints if step not in follower.known and step not in follower.given_up]
    running = sum(not each.is_over for each in follower.known.values()) + _starting(follower)
    for step in waiting[: max(0, follower.on_checkpoint.at_most - running)]:
        _launch(follower, checkpoints[step])
    return bool(waiting) or bool(running)


def _launch(follower: Follower, checkpoint: CompleteCheckpoint) -> None:
    if follower.is_here:
        _launch_here(follower, checkpoint)
        return
    launch = follower.request(checkpoint)
    try:
        start(follower.target, launch, {}, lambda _: None)
    except UsageError as error:
        _count_failure(follower, checkpoint.step, " ".join(str(error).split()))


def _launch_here(follower: Follower, checkpoint: CompleteCheckpoint) -> None:
    """Start the evaluation in a separate process, which continues if this process is killed.

    The process holds a lock for as long as it runs. A lock that is held is that of an evaluation which an earlier
    follower has started, and which has not written its record yet.
    """
    step = checkpoint.step
    log = _log_of(follower, step)
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as output:
        try:
            fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if (Path(run_of_evaluation(follower.run, step, is_here=True)) / "launch.json").exists():
            return
        command = [sys.executable, "-m", "trainway.cli", "evaluate", str(follower.run), "--step", str(step)]
        follower.children[step] = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)


def _starting(follower: Follower) -> int:
    """Return the number of processes that have not written the record of their evaluation yet."""
    count = 0
    for step, child in list(follower.children.items()):
        status = child.poll()
        if (
            step in follower.known
            or (Path(run_of_evaluation(follower.run, step, is_here=True)) / "launch.json").exists()
        ):
            count += step not in follower.known
        elif status is None:
            count += 1
        else:
            del follower.children[step]
            lines = _log_of(follower, step).read_text(encoding="utf-8", errors="replace").split("\n")
            _count_failure(follower, step, " ".join(each.strip() for each in lines[-4:]).strip())
    return count


def _take_over(follower: Follower, checkpoint: CompleteCheckpoint) -> None:
    """Submit an evaluation whose launch was killed after it reserved the name, unless the target has the job."""
    registry = registry_in(dict(follower.launch))
    assert registry is not None
    launch = follower.request(checkpoint)
    team = follower.launch["options"].get("evaluation_team")
    record = replace(registry, teams=(team,) if team else ()).read(str(launch.run))
    if record is None or record.launch is not None:
        return
    now = datetime.now(UTC)
    if now - datetime.fromisoformat(record.started) < timedelta(seconds=_SECONDS_TO_SUBMIT):
        return
    record = replace(record, started=now.isoformat(timespec="microseconds"))
    try:
        if registry.take_over(record) and not adopt(follower.target, launch, {}, record, registry):
            start(follower.target, replace(launch, resumed=True), {}, lambda _: None)
    except UsageError as error:
        _count_failure(follower, checkpoint.step, " ".join(str(error).split()))


def _lags(follower: Follower, written: Mapping[str, Any] | None, ended_at: float) -> bool:
    """Return whether to wait, after the end of the run, for a saved checkpoint that FSx has not exported."""
    newest = ((written or {}).get("checkpoint") or {}).get("step")
    if newest is None or newest % follower.on_checkpoint.every or newest in follower.known:
        return False
    is_seen = newest in follower.seen or newest in follower.given_up
    return not is_seen and time.monotonic() - ended_at < _SECONDS_TO_EXPORT


def _count_failure(follower: Follower, step: int, why: str) -> None:
    follower.tries[step] = follower.tries.get(step, 0) + 1
    if follower.tries[step] == 1:
        follower.say(f"warning: the evaluation of step {step} cannot be launched: {why}")
    if follower.tries[step] == _MOST_TRIES:
        _give_up(follower, step, f"it failed {_MOST_TRIES} times")


def _give_up(follower: Follower, step: int, why: str) -> None:
    follower.given_up[step] = why
    follower.say(f"warning: step {step} is not evaluated: {why}")


def _sentence(each: Evaluated) -> str:
    numbers = "".join(f" {name}={value:g}" for name, value in each.numbers.items()) if each.is_over else ""
    return f"evaluation of step {each.step}: {each.run} is {each.phase.value}" + (
        f": {each.reason}" if each.reason else numbers
    )


def _log_of(follower: Follower, step: int) -> Path:
    return follower.run / "evaluations" / f"{step}.log"


def _end_children(follower: Follower) -> None:
    """Stop the evaluations on this machine that this process has started, if it is told to end before them."""
    for child in follower.children.values():
        if child.poll() is None:
            child.terminate()
    for child in follower.children.values():
        child.wait()
