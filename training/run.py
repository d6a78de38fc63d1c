"""Hold a run on one rank while it takes its steps, and do what follows the computation of a step.

`open_run` loads the newest checkpoint, and opens everything that takes part in the steps. After each step, the loop in
`train.py` calls `save_if_due`, `hold_report`, and `evaluate_if_due`. If the run diverges, it calls `rewind`.
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from training.checkpoint import Cadence, Destination, Progress, Saver
from training.checkpoint.resume import Resumed
from training.data.batches import rank_batches
from training.divergence import not_finite, past_limit, rewound
from training.evaluation import evaluate
from training.hosts.run_record import FROM_SCRATCH, read_record
from training.hosts.stopping import StopSignal
from training.model.attention_kernels import chosen_kernels
from training.observe.exporter import run_exporter
from training.observe.laps import Laps
from training.observe.metrics import Metrics, peak_memory
from training.observe.profiling import profiling
from training.observe.reports import PendingStep, Reading, Reports, describe
from training.observe.run_state import run_state
from training.observe.straggler_watch import StragglerWatch
from training.observe.trackers import TrackerProcesses
from training.observe.watchdog import Watchdog
from training.optim.step_guard import StepGuard
from training.parallel.timeouts import allow_around_steps
from training.replicas import ReplicaComparison
from training.setup import Setup, begin
from training.step import Update


@dataclass(frozen=True)
class Guards:
    """What can end an attempt before its last step.

    `stop` receives the signals to stop. `watchdog` ends a rank that hangs. `check_leases` raises LocationInUse if
    another run has taken a lease of this one.
    """

    stop: StopSignal
    watchdog: Watchdog
    check_leases: Callable[[], None]


class TrainState:
    """The state of a run between two steps, beside the weights and the optimizer's state.

    `guard` decides which steps are skipped. `loss_scale` is a tensor on the device in fp16, and a number otherwise.
    `batches` are those of this rank that follow `progress`. `rewinds` counts by the step of the checkpoint.
    """

    def __init__(self, setup: Setup, progress: Progress) -> None:
        self._setup = setup
        self.rewinds = Counter[int]()
        self.continue_from(progress)

    def continue_from(self, progress: Progress) -> None:
        """Set the state to that after `progress`, which the weights already have."""
        job, world = self._setup.job, self._setup.world
        self.progress, self.first_step = progress, progress.step + 1
        self.guard = StepGuard(job.instability, world.device, progress.recent)
        scale = progress.loss_scale
        self.loss_scale: Tensor | float = torch.tensor(scale, device=world.device) if job.precision == "fp16" else scale
        self.batches = rank_batches(
            self._setup.data.samples,
            progress.samples,
            job.batch.global_,
            world.data_rank,
            world.layout.dp,
            pin=world.device.type == "cuda",
        )

    def advance(self, loss_scale: Tensor | float) -> None:
        """Count a step that was taken. `loss_scale` is that of the next step."""
        progress, samples = self.progress, self._setup.job.batch.global_
        self.progress = replace(progress, step=progress.step + 1, samples=progress.samples + samples)
        self.loss_scale = loss_scale

    def close(self) -> None:
        """Stop reading batches."""
        self.batches.close()


@dataclass(frozen=True)
class TrainingRun:
    """A run on this rank, in one attempt.

    `began` is the monotonic time of the attempt's start, in seconds. `last_step` is the last step of this attempt.
    `metrics` is None on all ranks but rank 0. `end_profiled_step` is called after each step, unless it is None.
    """

    setup: Setup
    state: TrainState
    guards: Guards
    cadence: Cadence
    saver: Saver
    replica_comparison: ReplicaComparison
    metrics: Metrics | None
    reports: Reports
    stragglers: StragglerWatch
    laps: Laps
    end_profiled_step: Callable[[], None] | None
    began: float
    last_step: int

    @property
    def has_steps_left(self) -> bool:
        """Return whether the last step of this attempt is not taken yet."""
        return self.state.progress.step < self.last_step


@contextlib.contextmanager
def open_run(
    setup: Setup,
    guards: Guards,
    nodes: Sequence[str],
    began: float,
    until_step: int | None,
    profile_steps: int | None,
) -> Iterator[TrainingRun]:
    """Load the newest checkpoint of a run that has its leases, and open everything that takes part in its steps.

    `nodes` are the names of the run's nodes, on rank 0. `began` is the monotonic time of the attempt's start, in
    seconds. See `training.train.train` for the other arguments. The end of the context closes everything.

    Raises:
        UserError: the checkpoints of the run, or the weights that it starts from, are not usable.
    """
    job, world, directory = setup.job, setup.world, setup.directory
    progress, resumed, seconds = _load(setup, began)
    resumed_from = resumed.progress.step if resumed else None
    description = describe(job, setup.parameters, world.size, world.device, resumed_from, setup.pace)
    metrics = _start_metrics(setup, resumed, description | seconds, nodes) if world.rank == 0 else None
    replica_comparison = ReplicaComparison(setup, metrics)
    cadence = Cadence(job.checkpoint, progress.step, len(nodes))
    exporter = run_exporter(description, cadence.every, resumed_from)
    layers, stage = list(setup.local.model.layers.values()), world.mesh.get_local_rank("pp")
    stragglers = StragglerWatch(layers, stage, world.device)
    guards.watchdog.on_beat = stragglers.exchange
    reports = Reports(metrics, job.data.sequence_length, setup.pace, exporter, stragglers, directory)
    state = TrainState(setup, progress)
    with contextlib.ExitStack() as running:
        if exporter:
            running.enter_context(contextlib.closing(exporter))
        running.enter_context(contextlib.closing(setup.data.samples))
        running.enter_context(contextlib.closing(state))
        saver = _saver_of(setup, guards, cadence, resumed.damaged if resumed else ())
        running.push(saver.leave)
        running.callback(lambda: reports.failed_saves(saver.failed()))
        running.enter_context(chosen_kernels(world.device))
        end_profiled_step = None
        if profile_steps and world.rank == 0:
            end_profiled_step = running.enter_context(profiling(directory / "profile", profile_steps, world.device))
        yield TrainingRun(
            setup=setup,
            state=state,
            guards=guards,
            cadence=cadence,
            saver=saver,
            replica_comparison=replica_comparison,
            metrics=metrics,
            reports=reports,
            stragglers=stragglers,
            laps=Laps(world.device),
            end_profiled_step=end_profiled_step,
            began=began,
            last_step=job.steps if until_step is None else min(until_step, job.steps),
        )


def _load(setup: Setup, began: float) -> tuple[Progress, Resumed | None, dict[str, float]]:
    """Fill the model as `training.setup.begin` does, and measure how long that and the start took.

    Returns the progress so far, the checkpoint that the run resumes from, and the seconds since `began` and of the
    load, under the names that the metrics have for them.
    """
    loading = time.monotonic()
    progress, resumed = begin(setup)
    load_seconds = time.monotonic() - loading
    if resumed and setup.start_from and setup.world.rank == 0:
        own = f"the run resumes from its own checkpoint of step {progress.step}"
        print(f"checkpoint.start_from: {setup.start_from} is not read, because {own}", flush=True)
    seconds = {
        "startup_seconds": round(time.monotonic() - began, 3),
        "load_seconds": round(load_seconds, 3) if resumed else 0.0,
    }
    return progress, resumed, seconds


def _start_metrics(setup: Setup, resumed: Resumed | None, description: dict[str, Any], nodes: Sequence[str]) -> Metrics:
    """Open the metrics of a run in its directory, and describe the run there, and where its platform is."""
    job, directory = setup.job, setup.directory
    if state := run_state():
        state.take("nodes", {"nodes": nodes})
    trackers = TrackerProcesses(job.trackers, job.name, directory) if job.trackers.named else None
    launch = os.environ.get(FROM_SCRATCH)
    begins_anew = launch is not None and launch not in read_record(directory).from_scratch
    follows = resumed.progress.step if resumed else 0 if begins_anew else None
    metrics = Metrics(directory, job.steps, follows, state, trackers)
    if begins_anew:
        metrics.event("from_scratch", launch=launch)
    metrics.start(**description)
    if resumed:
        metrics.event("resumed", step=resumed.progress.step, source=resumed.source)
    return metrics


def _saver_of(setup: Setup, guards: Guards, cadence: Cadence, damaged: Collection[int]) -> Saver:
    """Return the saver of a run. `damaged` are steps whose checkpoints cannot be read."""
    job = setup.job
    return Saver(
        Destination(setup.checkpoints, setup.memory, setup.hosts, guards.check_leases, damaged),
        job.checkpoint,
        setup.world.device,
        on_failure=guards.stop.request,
        cadence=cadence,
        patience=job.hang_detection.collective_timeout_seconds,
    )


def save_if_due(run: TrainingRun, reading: Reading, told_to_stop: bool) -> str | None:
    """Save the step that was just taken if it is due, and report the saves that ended.

    `reading` has the numbers of the step. The last step before a stop is always saved. Every rank calls this.

    Returns:
        Why the run diverges, or None. A run that diverges saves nothing.

    Raises:
        ReplicasDiffer: the weights of some replicas differ.
        UserError: too many saves failed.
    """
    step, saver = run.state.progress.step, run.saver
    divergence = past_limit(run.setup, step - 1, run.reports.newest)
    last = step == run.last_step or told_to_stop
    save = last or saver.due(step)
    run.replica_comparison.after(step, save)
    if save and not divergence:
        divergence = _save(run, reading, last)
        run.laps.lap("checkpoint")
    run.reports.checkpoints(saver.complete())
    run.reports.failed_saves(saver.failed())
    return divergence


def _save(run: TrainingRun, reading: Reading, last: bool) -> str | None:
    """Save the step that was just taken, or return why the run diverges.

    If the step was skipped and is not the `last` one, the next step that is not skipped is saved instead.
    """
    setup, state, reports, step = run.setup, run.state, run.reports, run.state.progress.step
    result = reading.result()
    if divergence := past_limit(setup, step, result) or not_finite(setup, step):
        return divergence
    if result.skipped and not last:
        run.saver.postpone(step)
        return None
    run.guards.watchdog.other("a checkpoint")
    # Nothing of a skipped step is in the state, so its loss is not of the state either.
    good = result if not result.skipped else reports.newest
    state.progress = replace(
        state.progress,
        loss=state.progress.loss if good is None or good.skipped else good.loss,
        loss_scale=float(state.loss_scale),
        recent=state.guard.recent(),
    )
    run.cadence.step_seconds = reports.step_seconds()
    run.saver.save(setup.local.model, setup.optimizer, state.progress, setup.identity, last)
    reports.interval(run.cadence.every, run.cadence.newly_adopted())
    return None


def rewind(run: TrainingRun, divergence: str) -> None:
    """Go back to the newest checkpoint of a run that diverges, for the reason `divergence`. Every rank calls this.

    The run continues with samples that it has not seen.

    Raises:
        Diverged: the job stops instead, or has gone back to this checkpoint often enough.
        UserError: the checkpoints of the run are gone, or too many saves failed.
    """
    setup, state = run.setup, run.state
    run.guards.watchdog.other("a rewind")
    run.saver.wait()
    allow_around_steps(setup.world, setup.job.hang_detection)
    progress = rewound(setup, state.progress, divergence, state.rewinds, run.metrics)
    state.close()
    state.continue_from(progress)
    run.reports.newest = None
    run.laps.start()


def hold_report(run: TrainingRun, reading: Reading, update: Update) -> None:
    """Hold the report of the step that was just taken until the device has the next one."""
    progress, device = run.state.progress, run.setup.world.device
    measured = run.laps.end_step(), peak_memory(device), run.stragglers.end_step()
    run.reports.hold(PendingStep(progress.step, progress.samples, update.learning_rate, reading, *measured))


def evaluate_if_due(run: TrainingRun) -> None:
    """Evaluate the model on the held-out samples, and report the loss, if an evaluation is due after this step."""
    setup, step = run.setup, run.state.progress.step
    held_out, settings = setup.data.held_out, setup.job.evaluation
    if not held_out or (step % settings.every and step != run.last_step):
        return
    run.guards.watchdog.other("an evaluation")
    run.reports.flush()
    evaluating = time.monotonic()
    loss = evaluate(setup.local, setup.world, held_out, settings.samples, setup.job.batch.micro)
    if run.metrics:
        run.metrics.evaluation(step, loss, time.monotonic() - evaluating)
    run.laps.start()  # an evaluation belongs to no step


def complete_saves(run: TrainingRun) -> None:
    """Report the last step, and wait until the checkpoints of the run are complete."""
    run.guards.watchdog.other("the end")
    run.reports.flush()
    allow_around_steps(run.setup.world, run.setup.job.hang_detection)
    run.saver.wait()
    run.reports.checkpoints(run.saver.complete())
    if run.setup.memory:
        run.setup.memory.remove()


def end_metrics(metrics: Metrics, progress: Progress, seconds: float, state: str) -> None:
    """Write the last event of a run that took `seconds` and is `succeeded` or `stopped`, and close its metrics."""
    loss = progress.loss
    metrics.event("end", step=progress.step, loss=loss, loss_hex=loss.hex(), seconds=seconds)
    metrics.close(state)
