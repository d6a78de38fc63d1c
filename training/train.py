"""Trains the model of a job file. Started on every rank by torchrun:

    torchrun --nproc-per-node 8 … -m training.train --config job.yaml [--until-step N] [--profile]

What is not in the job file comes by environment: TRAINWAY_LOCATIONS (see `hosts/locations.py`), TRAINWAY_CHECKPOINTS
and TRAINWAY_MEMORY (see `checkpoint/stores.py` and `checkpoint/memory.py`) and TRAINWAY_RUN, the directory that gets
the metrics (default: runs/<name of the job>). TRAINWAY_JOB is the job file where --config is not.

A run always resumes from the latest checkpoint of its job that can be read, wherever it was interrupted. SIGTERM and
SIGUSR1, sent to any rank or to torchrun, finish the step, and the one that the device was given meanwhile, write a
checkpoint and exit with status 0, or with TRAINWAY_STOPPED_STATUS where whatever starts the job must know that it is
not done; torchrun allows its ranks 30 seconds for that. A mistake in the job file or its data exits with status 2 and
one message.
"""

import argparse
import contextlib
import gc
import math
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch.distributed as dist

from training import config
from training.checkpoint import Progress, Saver
from training.checkpoint.resume import Resumed
from training.config import Job
from training.data.batches import rank_batches
from training.errors import UserError
from training.evaluation import evaluate
from training.hosts.stopping import StopSignal
from training.observe.laps import Laps
from training.observe.metrics import Metrics, peak_memory
from training.observe.profiling import profiling
from training.observe.reports import PendingStep, Reading, Reports, describe
from training.parallel.local_model import loss_over
from training.parallel.world import join, this_process
from training.setup import Setup, begin, open_inputs, set_up
from training.step import compute_gradients, update_weights

STEPS_BETWEEN_COLLECTIONS = 100


def main() -> None:
    """Train by a job file, as one rank that torchrun started."""
    parser = argparse.ArgumentParser(prog="training.train", description="Train the model of a job file.")
    job_file = os.environ.get("TRAINWAY_JOB")
    parser.add_argument(
        "--config",
        type=Path,
        default=job_file,
        required=job_file is None,
        metavar="JOB.yaml",
        help="the job file; default: what the environment's TRAINWAY_JOB names",
    )
    parser.add_argument(
        "--until-step",
        type=int,
        metavar="N",
        help="stop after step N of the job's schedule, with a checkpoint that a later start goes on from",
    )
    parser.add_argument(
        "--profile",
        type=int,
        nargs="?",
        const=2,
        metavar="STEPS",
        help="record some steps of rank 0 (default: 2) in the directory `profile` beside the metrics",
    )
    arguments = parser.parse_args()
    job = config.load(arguments.config)
    try:
        stopped = train(job, arguments.until_step, arguments.profile)
    except UserError as error:
        # The ranks of a host see the same files, so one of them speaks for it.
        if os.environ.get("LOCAL_RANK", "0") == "0":
            print(f"{arguments.config}: {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    if stopped:
        sys.exit(int(os.environ.get("TRAINWAY_STOPPED_STATUS", "0")))


def train(job: Job, until_step: int | None = None, profile_steps: int | None = None) -> bool:
    """Train from the job's newest checkpoint to its last step, or to `until_step`; profile the first `profile_steps`.

    Returns whether the run was told to stop before that step.

    Raises:
        UserError: the job, its data, or its checkpoints are not usable as they are.
    """
    began = time.monotonic()
    stop = StopSignal()
    process = this_process()
    inputs = open_inputs(job, process)
    dist.init_process_group("cpu:gloo,cuda:nccl" if process.device.type == "cuda" else "gloo")
    setup = set_up(job, inputs, join(inputs.layout, process.device))
    progress, resumed = begin(setup, inputs.start_from)
    last_step = job.steps if until_step is None else min(until_step, job.steps)

    world, local, data, layout = setup.world, setup.local, setup.data, setup.world.layout
    run = Path(os.environ.get("TRAINWAY_RUN", f"runs/{job.name}"))
    metrics = start_metrics(setup, run, resumed) if world.rank == 0 else None
    reports = Reports(metrics, job.data.sequence_length, setup.pace)
    laps = Laps(world.device)
    on_gpu = world.device.type == "cuda"
    batches = rank_batches(data.samples, progress.samples, job.batch.global_, world.data_rank, layout.dp, pin=on_gpu)
    # A rank that collects garbage in the middle of a step keeps all others waiting, so all do it after the same step.
    gc.collect()
    gc.disable()
    with contextlib.ExitStack() as running:
        running.enter_context(contextlib.closing(data.samples))
        running.enter_context(contextlib.closing(batches))
        saver = Saver(
            setup.checkpoints, job.checkpoint, setup.memory, world.device, setup.hosts, on_failure=stop.request
        )
        running.enter_context(contextlib.closing(saver))
        running.enter_context(loss_over(layout.tp))
        end_profiled_step = None
        if profile_steps and world.rank == 0:
            end_profiled_step = running.enter_context(profiling(run / "profile", profile_steps, world.device))
        laps.start()
        for step in range(progress.step + 1, last_step + 1):
            laps.lap("other")
            tokens = next(batches).to(world.device, non_blocking=True).long()
            laps.lap("data_wait")

            loss = compute_gradients(local, local.batch(tokens), job.batch.micro, laps, progress.loss_scale)

            saver.wait_until_copied()
            laps.lap("checkpoint")

            update = update_weights(setup, step, progress.loss_scale)
            laps.lap("optimizer")

            # Of the global batch; of a pipeline only the last rank knows any.
            dist.all_reduce(loss)
            loss_and_norm = Reading(loss * (layout.pp / world.size), update.gradient_norm)
            samples = progress.samples + job.batch.global_
            progress = Progress(step, samples, loss=math.nan, loss_scale=update.loss_scale)
            laps.lap("other")

            # All of the step is given to the device. While that is at it, the host tells of the step before.
            reports.flush()
            told_to_stop = stop.reached_any_rank()
            last = step == last_step or told_to_stop
            if last or saver.due(step):
                progress = replace(progress, loss=loss_and_norm.values()[0])
                saver.save(local.model, setup.optimizer, progress, setup.identity, last)
                laps.lap("checkpoint")
            reports.checkpoints(saver.complete())

            if step % STEPS_BETWEEN_COLLECTIONS == 0:
                gc.collect(1)
            memory_bytes = peak_memory(world.device)
            reports.hold(PendingStep(step, samples, update.learning_rate, loss_and_norm, laps.end_step(), memory_bytes))
            if data.held_out and not told_to_stop and (step % job.evaluation.every == 0 or step == last_step):
                reports.flush()
                evaluating = time.monotonic()
                held_out_loss = evaluate(local, world, data.held_out, job.evaluation.samples, job.batch.micro)
                if metrics:
                    metrics.evaluation(step, held_out_loss, time.monotonic() - evaluating)
                laps.start()  # an evaluation is not of any step
            if end_profiled_step:
                end_profiled_step()
            if told_to_stop:
                break
        reports.flush()
        saver.wait()
        reports.checkpoints(saver.complete())
        if setup.memory:
            setup.memory.remove()

    if metrics:
        end_metrics(metrics, progress, time.monotonic() - began)
        end = f"end step={progress.step}/{job.steps} loss={progress.loss:.4f} checkpoints={setup.checkpoints}"
        print(end, flush=True)
    stop.ignore_from_now_on()
    # A rank that leaves while another still talks to it can fail after all its work is done.
    dist.barrier()
    return progress.step < last_step


def start_metrics(setup: Setup, run: Path, resumed: Resumed | None) -> Metrics:
    """Open the metrics of a run in its directory, and describe the run there."""
    job, world = setup.job, setup.world
    resumed_from = resumed.progress.step if resumed else None
    metrics = Metrics(run, job.steps, resumed_from)
    metrics.start(**describe(job, setup.parameters, world.size, world.device, resumed_from, setup.pace))
    if resumed:
        metrics.event("resumed", step=resumed.progress.step, source=resumed.source)
    return metrics


def end_metrics(metrics: Metrics, progress: Progress, seconds: float) -> None:
    """Write the last event of a run that took so many seconds, and close its metrics."""
    loss = progress.loss
    metrics.event("end", step=progress.step, loss=loss, loss_hex=loss.hex(), seconds=seconds)
    metrics.close()


if __name__ == "__main__":
    main()
