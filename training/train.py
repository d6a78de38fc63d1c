"""Train the model of a job file. torchrun starts this on every rank:

    torchrun --nproc-per-node 8 … -m training.train --config job.yaml [--until-step N] [--profile]

Settings that are not in the job file come from the environment: TRAINWAY_LOCATIONS (see `hosts/locations.py`),
TRAINWAY_CHECKPOINTS (see `checkpoint/stores.py`), TRAINWAY_MEMORY and TRAINWAY_LOCAL_DISK (see
`checkpoint/node_directory.py`), and TRAINWAY_RUN, the directory of the metrics (default: runs/<name of the job>).
TRAINWAY_METRICS is the address that answers Prometheus (see `observe/exporter.py`). TRAINWAY_STATE is the file in the
platform's bucket that has the state of the run. TRAINWAY_JOB is the job file if --config is not given.
TRAINWAY_FROM_SCRATCH lets a run begin anew (see `hosts/run_record.py`).

A run always resumes from the latest readable checkpoint of its job. If the checkpoints that it had are gone, it ends
before the first step. After SIGTERM or SIGUSR1 to any rank or to torchrun, the run takes up to three more steps, until
all ranks have done the same ones. It then writes a checkpoint and exits with status 0, or with TRAINWAY_STOPPED_STATUS
if the program that starts the job must know that the job is not done. torchrun allows its ranks 30 seconds for that. A
mistake in the job file or its data exits with status 2 and one message. `errors.py` has the other statuses.
"""

import argparse
import contextlib
import faulthandler
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch.distributed as dist

from training import config
from training.checkpoint.leases import leased
from training.checkpoint.saver import is_saving
from training.config import Job
from training.divergence import not_finite, past_limit, rewound
from training.errors import UserError
from training.evaluation import evaluate
from training.hosts.agent import end_with_agent
from training.hosts.device_fault import device_fault
from training.hosts.lease import SECONDS_UNTIL_DEAD
from training.hosts.stopping import StopSignal
from training.hosts.suspect_nodes import suspect, this_attempt
from training.hosts.this_node import node_name, nodes_of_run
from training.observe.metrics import peak_memory
from training.observe.reports import PendingStep, Reading
from training.observe.run_state import write_failure
from training.observe.watchdog import Watchdog
from training.parallel.timeouts import allow_around_steps, allow_for_steps
from training.parallel.world import connect, join, meet, this_process
from training.run import Guards, end_metrics, open_run
from training.setup import Setup, open_inputs, set_up
from training.step import compute_gradients, update_weights

STEPS_BETWEEN_COLLECTIONS = 100
SECONDS_TO_REPORT = 10.0


def main() -> None:
    """Train the model of a job file, as one rank that torchrun started."""
    parser = argparse.ArgumentParser(prog="training.train", description="Train the model of a job file.")
    job_file = os.environ.get("TRAINWAY_JOB")
    parser.add_argument(
        "--config",
        type=Path,
        default=job_file,
        required=job_file is None,
        metavar="JOB.yaml",
        help="job file (default: the file named by the environment variable TRAINWAY_JOB)",
    )
    parser.add_argument(
        "--until-step",
        type=int,
        metavar="N",
        help="stop after step N of the job's schedule, with a checkpoint from which a later start resumes",
    )
    parser.add_argument(
        "--profile",
        type=int,
        nargs="?",
        const=2,
        metavar="STEPS",
        help="record STEPS steps of rank 0 (2 if not given) in the directory `profile` beside the metrics",
    )
    arguments = parser.parse_args()
    # A rank that crashes in native code prints its Python stack. torchrun tells no more than the signal.
    faulthandler.enable(sys.__stderr__ or sys.stderr)
    stop = StopSignal()
    try:
        job = read_job(arguments.config)
        stopped = train(job, arguments.until_step, arguments.profile, stop)
    except UserError as error:
        wait_for_first_rank(error.status, stop)
        for line in str(error).splitlines():
            print(f"{arguments.config}: {line}", file=sys.stderr)
        write_failure(str(error), error.status)
        end_without_saver(error.status)
        sys.exit(error.status)
    except Exception as error:
        if fault := device_fault(error):
            suspect(directory_of(job), node_name(), "fault", fault, this_attempt())
        if os.environ.get("LOCAL_RANK", "0") == "0":
            write_failure(f"{type(error).__name__}: {error}", 1)
        if is_saving():
            traceback.print_exc()
        end_without_saver(1)
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    if stopped:
        sys.exit(int(os.environ.get("TRAINWAY_STOPPED_STATUS", "0")))


def read_job(path: Path) -> Job:
    """Return the job of a job file, or raise UserError: all ranks of a host find the same problems, and one reports."""
    try:
        return config.load(path)
    except config.WrongJobFile as error:
        raise UserError(str(error)) from error


def end_without_saver(status: int) -> None:
    """Exit immediately if a save is still in progress. A normal exit would wait for the thread of the saver."""
    if is_saving():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def directory_of(job: Job) -> Path:
    """Return the directory of the run of a job."""
    return Path(os.environ.get("TRAINWAY_RUN", f"runs/{job.name}"))


def wait_for_first_rank(status: int, stop: StopSignal) -> None:
    """Wait until local rank 0 has had SECONDS_TO_REPORT to report the same error. Local rank 0 itself does not wait.

    The ranks of a host read the same files, so local rank 0 reports an error for all of them. torchrun ends all other
    ranks when one rank exits. If this rank exited at once, torchrun could end local rank 0 before its report. After the
    wait, the caller reports an error that only this rank has.

    Raises SystemExit with `status` when torchrun sends SIGTERM, or has sent it before the error. torchrun then lists
    this rank with its own status.
    """
    if os.environ.get("LOCAL_RANK", "0") != "0":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(status))
        if stop.arrived():
            sys.exit(status)
        time.sleep(SECONDS_TO_REPORT)


def train(
    job: Job, until_step: int | None = None, profile_steps: int | None = None, stop: StopSignal | None = None
) -> bool:
    """Train from the job's newest checkpoint to its last step, or to `until_step`.

    Profile the first `profile_steps` steps. `stop` has the signals since an earlier time. Returns whether the run was
    told to stop before that step.

    Raises:
        UserError: the job, its data, or its checkpoints are not usable.
    """
    began = time.monotonic()
    stop = stop or StopSignal()
    end_with_agent(stop.arrived)
    process = this_process(job.device)
    run = directory_of(job)
    with contextlib.closing(Watchdog(job.hang_detection, run)) as watchdog:
        watchdog.other("the opening of the data")
        inputs = open_inputs(job, process)
        watchdog.meeting()
        store = meet(watchdog.awaits)
        connect(process, store)
        stop.share(store)
        watchdog.share(store)
        nodes = nodes_of_run(store, process.rank)
        world = join(inputs.layout, process.device)
        allow_around_steps(world, job.hang_detection)
        setup = set_up(job, inputs, world, run)
        # After the loss of a host, rank 0 may have to wait until the lease of that host expires.
        watchdog.other("the wait for the leases", longer_by=SECONDS_UNTIL_DEAD)
        with leased((setup.checkpoints, str(run)), stop.request, setup.hosts) as check_leases:
            watchdog.other("the start")
            guards = Guards(stop, watchdog, check_leases)
            return take_steps(setup, guards, nodes, began, until_step, profile_steps)


def take_steps(
    setup: Setup,
    guards: Guards,
    nodes: Sequence[str],
    began: float,
    until_step: int | None,
    profile_steps: int | None,
) -> bool:
    """Take the steps of a run that has its leases. See `train`."""
    job, world, local, data, layout = setup.job, setup.world, setup.local, setup.data, setup.world.layout
    stop, watchdog = guards.stop, guards.watchdog
    with open_run(setup, guards, nodes, began, until_step, profile_steps) as run:
        state, last_step, saver, cadence = run.state, run.last_step, run.saver, run.cadence
        metrics, reports, laps = run.metrics, run.reports, run.laps
        # Garbage collection in the middle of a step delays all other ranks, so all ranks do it after the same step.
        gc.collect()
        gc.disable()
        laps.start()
        told_to_stop = False
        while run.has_steps_left and not told_to_stop:
            step = state.progress.step + 1
            watchdog.step()
            laps.lap("other")
            batch = local.batch(next(state.batches))
            laps.lap("data_wait")

            loss = compute_gradients(local, batch, job.batch.micro, laps, state.loss_scale)

            saver.wait_until_copied()
            laps.lap("checkpoint")

            # Sum over the global batch. In a pipeline, only the last rank has a loss.
            dist.all_reduce(loss)
            loss *= layout.pp / world.size
            update = update_weights(setup, state.guard, step, loss, state.loss_scale)
            laps.lap("optimizer")
            if step == state.first_step:
                allow_for_steps(world, job.hang_detection)

            reading = Reading(loss, update.gradient_norm, *update.decision)
            state.advance(update.loss_scale)
            laps.lap("other")

            # The whole step is queued on the device. While it runs, the host reports the step before.
            reports.flush()
            divergence = past_limit(setup, step - 1, reports.newest)
            told_to_stop = stop.reached_any_rank()
            last = step == last_step or told_to_stop
            save = last or saver.due(step)
            run.replica_comparison.after(step, save)
            if not divergence and save:
                result = reading.result()
                divergence = past_limit(setup, step, result) or not_finite(setup, step)
                if not divergence and result.skipped and not last:
                    saver.postpone(step)
                elif not divergence:
                    watchdog.other("a checkpoint")
                    # Nothing of a skipped step is in the state, so its loss is not of the state either.
                    good = result if not result.skipped else reports.newest
                    state.progress = replace(
                        state.progress,
                        loss=state.progress.loss if good is None or good.skipped else good.loss,
                        loss_scale=float(state.loss_scale),
                        recent=state.guard.recent(),
                    )
                    cadence.step_seconds = reports.step_seconds()
                    saver.save(local.model, setup.optimizer, state.progress, setup.identity, last)
                    reports.interval(cadence.every, cadence.newly_adopted())
                laps.lap("checkpoint")
            reports.checkpoints(saver.complete())
            reports.failed_saves(saver.failed())
            if divergence:
                watchdog.other("a rewind")
                saver.wait()
                allow_around_steps(world, job.hang_detection)
                progress = rewound(setup, state.progress, divergence, state.rewinds, metrics)
                state.close()
                state.continue_from(progress)
                reports.newest, told_to_stop = None, False
                laps.start()
                continue

            if step % STEPS_BETWEEN_COLLECTIONS == 0:
                gc.collect(1)
            measured = laps.end_step(), peak_memory(world.device), run.stragglers.end_step()
            reports.hold(PendingStep(step, state.progress.samples, update.learning_rate, reading, *measured))
            if data.held_out and not told_to_stop and (step % job.evaluation.every == 0 or step == last_step):
                watchdog.other("an evaluation")
                reports.flush()
                evaluating = time.monotonic()
                held_out_loss = evaluate(local, world, data.held_out, job.evaluation.samples, job.batch.micro)
                if metrics:
                    metrics.evaluation(step, held_out_loss, time.monotonic() - evaluating)
                laps.start()  # an evaluation belongs to no step
            if run.end_profiled_step:
                run.end_profiled_step()
        watchdog.other("the end")
        reports.flush()
        allow_around_steps(world, job.hang_detection)
        saver.wait()
        reports.checkpoints(saver.complete())
        if setup.memory:
            setup.memory.remove()

    progress = state.progress
    if metrics:
        outcome = "succeeded" if progress.step == last_step else "stopped"
        end_metrics(metrics, progress, time.monotonic() - began, outcome)
        end = f"end step={progress.step}/{job.steps} loss={progress.loss:.4f} checkpoints={setup.checkpoints}"
        print(end, flush=True)
    if run.has_steps_left:
        stop.wait_until_told()
    stop.ignore_from_now_on()
    # A rank that exits while another still communicates with it can fail after all its work is done.
    dist.barrier()
    return run.has_steps_left


if __name__ == "__main__":
    main()
