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
from pathlib import Path

import torch.distributed as dist

from training import config
from training.checkpoint.leases import leased
from training.checkpoint.saver import is_saving
from training.config import Job
from training.errors import UserError
from training.hosts.agent import end_with_agent
from training.hosts.device_fault import device_fault
from training.hosts.lease import SECONDS_UNTIL_DEAD
from training.hosts.stopping import StopSignal
from training.hosts.suspect_nodes import suspect, this_attempt
from training.hosts.this_node import node_name, nodes_of_run
from training.observe.reports import Reading
from training.observe.run_state import write_failure
from training.observe.watchdog import Watchdog
from training.parallel.timeouts import allow_around_steps, allow_for_steps
from training.parallel.world import connect, join, meet, this_process
from training.run import (
    Guards,
    TrainingRun,
    complete_saves,
    end_metrics,
    evaluate_if_due,
    hold_report,
    open_run,
    rewind,
    save_if_due,
)
from training.setup import open_inputs, set_up
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
    stop, began = StopSignal(), time.time()
    try:
        job = read_job(arguments.config)
        stopped = train(job, arguments.until_step, arguments.profile, stop)
    except UserError as error:
        wait_for_first_rank(error.status, stop)
        for line in str(error).splitlines():
            print(f"{arguments.config}: {line}", file=sys.stderr)
        write_failure(str(error), error.status, began)
        end_without_saver(error.status)
        sys.exit(error.status)
    except Exception as error:
        if fault := device_fault(error):
            suspect(directory_of(job), node_name(), "fault", fault, this_attempt())
        if os.environ.get("LOCAL_RANK", "0") == "0":
            write_failure(f"{type(error).__name__}: {error}", 1, began)
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
    directory = directory_of(job)
    with contextlib.closing(Watchdog(job.hang_detection, directory)) as watchdog:
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
        setup = set_up(job, inputs, world, directory)
        # After the loss of a host, rank 0 may have to wait until the lease of that host expires.
        watchdog.other("the wait for the leases", longer_by=SECONDS_UNTIL_DEAD)
        with leased((setup.checkpoints, str(directory)), stop.request, setup.hosts) as check_leases:
            watchdog.other("the start")
            guards = Guards(stop, watchdog, check_leases)
            with open_run(setup, guards, nodes, began, until_step, profile_steps) as run:
                take_steps(run)
                complete_saves(run)
            return end(run)


def take_steps(run: TrainingRun) -> None:
    """Take the steps of a run, until its last one or until a rank is told to stop. Every rank calls this.

    Raises:
        UserError: the run diverges, the weights of its replicas differ, or too many saves failed.
    """
    setup, state, laps = run.setup, run.state, run.laps
    job, local, world = setup.job, setup.local, setup.world
    # Garbage collection in the middle of a step delays all other ranks, so all ranks do it after the same step.
    gc.collect()
    gc.disable()
    laps.start()
    told_to_stop = False
    while run.has_steps_left and not told_to_stop:
        step = state.progress.step + 1
        run.guards.watchdog.step()
        laps.lap("other")
        batch = local.batch(next(state.batches))
        laps.lap("data_wait")

        loss = compute_gradients(local, batch, job.batch.micro, laps, state.loss_scale)

        run.saver.wait_until_copied()
        laps.lap("checkpoint")

        # Sum over the global batch. In a pipeline, only the last rank has a loss.
        dist.all_reduce(loss)
        loss *= world.layout.pp / world.size
        update = update_weights(setup, state.guard, step, loss, state.loss_scale)
        laps.lap("optimizer")
        if step == state.first_step:
            allow_for_steps(world, job.hang_detection)

        reading = Reading(loss, update.gradient_norm, *update.decision)
        state.advance(update.loss_scale)
        laps.lap("other")

        # The whole step is queued on the device. While it runs, the host reports the step before.
        run.reports.flush()
        told_to_stop = run.guards.stop.reached_any_rank()
        if divergence := save_if_due(run, reading, told_to_stop):
            rewind(run, divergence)
            told_to_stop = False
            continue

        if step % STEPS_BETWEEN_COLLECTIONS == 0:
            gc.collect(1)
        hold_report(run, reading, update)
        if not told_to_stop:
            evaluate_if_due(run)
        if run.end_profiled_step:
            run.end_profiled_step()


def end(run: TrainingRun) -> bool:
    """Report the end of a run, and wait for the other ranks. Return whether the run was told to stop."""
    setup, stop, progress = run.setup, run.guards.stop, run.state.progress
    if run.metrics:
        state = "succeeded" if progress.step == run.last_step else "stopped"
        end_metrics(run.metrics, progress, time.monotonic() - run.began, state)
        ended = f"end step={progress.step}/{setup.job.steps} loss={progress.loss:.4f} checkpoints={setup.checkpoints}"
        print(ended, flush=True)
    if run.has_steps_left:
        stop.wait_until_told()
    stop.ignore_from_now_on()
    # A rank that exits while another still communicates with it can fail after all its work is done.
    dist.barrier()
    return run.has_steps_left


if __name__ == "__main__":
    main()
