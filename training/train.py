"""Trains the model of a job file. Started on every rank by torchrun:

    torchrun --nproc-per-node 8 … -m training.train --config job.yaml [--until-step N] [--profile]

What is not in the job file comes by environment: TRAINWAY_LOCATIONS (see `hosts/locations.py`), TRAINWAY_CHECKPOINTS
and TRAINWAY_MEMORY (see `checkpoint/stores.py` and `checkpoint/memory.py`) and TRAINWAY_RUN, the directory that gets
the metrics (default: runs/<name of the job>). TRAINWAY_JOB is the job file where --config is not.

A run always goes on from the newest checkpoint of its job that can be read, wherever it was interrupted. SIGTERM and
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor.parallel import loss_parallel

from training import checkpoint, config
from training.checkpoint import Progress, weights
from training.config import Job
from training.data.batches import document_numbers, rank_batches
from training.data.sources import open_sources
from training.errors import UserError
from training.evaluation import evaluate
from training.hosts.locations import resolve
from training.hosts.stopping import StopSignal
from training.model.decoder import Decoder, initialise, materialise, rotary_cache
from training.model.experts import balance
from training.model.presets import shape_of
from training.observe.flops import pace_of, peak_flops
from training.observe.laps import Laps
from training.observe.metrics import Metrics, peak_memory
from training.observe.profiling import profiling
from training.observe.reports import Reading, Reports, Step, describe
from training.optim.optimizer import learning_rate, make_optimizer, set_learning_rate
from training.parallel import limits
from training.parallel.apply import local_positions, parallelise
from training.parallel.clipping import clip_gradients
from training.parallel.expert import expert_mesh
from training.parallel.mesh import context_group, data_rank, make_mesh
from training.parallel.pipeline import Pipeline
from training.precision import float8, transformer_engine
from training.precision.loss_scale import initial_scale, next_scale
from training.step import accumulate

STEPS_BETWEEN_COLLECTIONS = 100


def main() -> None:
    """The command line."""
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
    """Runs the job from its newest checkpoint to its last step, or to `until_step`; records `profile_steps` of them.

    Returns whether it was told to stop before that step.

    Raises:
        UserError: the job, its data or its checkpoints are not usable as they are.
    """
    began = time.monotonic()
    stop = StopSignal()

    # Everything that can be wrong with the input is found before ranks begin to wait for each other.
    rank, world_size, device = place_of_this_process()
    try:
        layout = job.layout(world_size)
    except ValueError as error:
        raise UserError(str(error)) from error
    shape = shape_of(job.model, job.variant)
    checkpoints = resolve(job.checkpoint_location)
    start_from = resolve(job.checkpoint.start_from) if job.checkpoint.start_from else None
    data = open_sources(job)
    index = data.index
    limits.check(shape, index.vocabulary, job, layout)
    float8.check(job, layout, device)
    transformer_engine.check(job, device)
    last_step = job.steps if until_step is None else min(until_step, job.steps)

    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    with torch.device("meta"):
        model = Decoder(shape, index.vocabulary, job.memory.loss_chunks)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    mesh = make_mesh(layout, device)
    context = context_group(layout, device) if layout.cp > 1 else None
    experts = expert_mesh(layout, device) if layout.ep > 1 else None
    stages = parallelise(model, job, layout, mesh, context, experts)
    materialise(model, device, job.memory.offload)
    optimizer = make_optimizer(model, job.optimizer)
    positions = local_positions(job.data.sequence_length, job, context, device)
    rotary = rotary_cache(shape, job.data.sequence_length, device)[:, positions]
    pipeline = None
    if layout.pp > 1:
        pipeline = Pipeline(stages, job.parallel.pp_schedule, layout, mesh.get_group("pp"), rotary)

    identity: dict[str, Any] = {
        "model": asdict(shape) | {"vocabulary": index.vocabulary},
        "tokenizer": index.tokenizer.sha256,
        "data": data.identity,
        "sequence_length": job.data.sequence_length,
        "seed": job.seed,
    }
    # Of the checkpoints alone: they are written in a thread, while the training talks in the other groups.
    hosts = dist.new_group(backend="gloo")
    memory = None
    if job.checkpoint.memory_every:
        parts = {"ranks": world_size, "parallel": job.parallel.model_dump(), "optimizer": job.optimizer.name}
        memory = checkpoint.NodeMemory(checkpoints, identity, parts, hosts)
    resumed = checkpoint.resume(checkpoints, memory, model, optimizer, identity)
    if resumed is None:
        if start_from:
            weights.start(start_from, model, identity)
        else:
            initialise(model, job.seed)
        progress = Progress(step=0, samples=0, loss=float("nan"), loss_scale=initial_scale(job.precision))
    else:
        progress = resumed.progress
    resumed_from = progress.step if resumed else None

    pace = pace_of(
        shape,
        index.vocabulary,
        job.data.sequence_length,
        job.tokens_per_step,
        peak_flops(device, job.precision),
        world_size,
    )
    run = Path(os.environ.get("TRAINWAY_RUN", f"runs/{job.name}"))
    metrics = None
    if rank == 0:
        metrics = Metrics(run, job.steps, resumed_from)
        metrics.start(**describe(job, parameters, world_size, device, resumed_from, pace))
        if resumed:
            metrics.event("resumed", step=resumed.progress.step, source=resumed.source)
    reports = Reports(metrics, job.data.sequence_length, pace)

    laps = Laps(device)
    batches = rank_batches(
        data.samples, progress.samples, job.batch.global_, data_rank(layout, mesh), layout.dp, pin=device.type == "cuda"
    )
    # A rank that collects garbage in the middle of a step keeps all others waiting, so all do it after the same step.
    gc.collect()
    gc.disable()
    with contextlib.ExitStack() as running:
        running.enter_context(contextlib.closing(data.samples))
        running.enter_context(contextlib.closing(batches))
        saver = checkpoint.Saver(checkpoints, job.checkpoint, memory, device, hosts, on_failure=stop.request)
        running.enter_context(contextlib.closing(saver))
        running.enter_context(loss_over(layout.tp))
        end_profiled_step = None
        if profile_steps and rank == 0:
            end_profiled_step = running.enter_context(profiling(run / "profile", profile_steps, device))
        laps.start()
        for step in range(progress.step + 1, last_step + 1):
            laps.lap("other")
            tokens = next(batches).to(device, non_blocking=True).long()
            laps.lap("data_wait")

            inputs, targets = tokens[:, :-1][:, positions], tokens[:, 1:][:, positions]
            documents = document_numbers(inputs, index.end_of_text) if job.data.mask_documents else None
            if pipeline:
                loss = pipeline.step(inputs, targets, documents, progress.loss_scale)
                laps.lap("backward")  # and forward: the schedule mixes them
            else:
                loss = accumulate(model, inputs, targets, documents, rotary, job.batch.micro, laps, progress.loss_scale)

            saver.wait_until_copied()
            laps.lap("checkpoint")

            gradient_norm = clip_gradients(model.parameters(), job.clip, progress.loss_scale)
            rate = learning_rate(step, job.steps, job.optimizer.learning_rate, job.schedule)
            set_learning_rate(optimizer, rate)
            # Only fp16 has to look at the norm before the step, and so to wait for the device.
            overflowed = job.precision == "fp16" and not math.isfinite(gradient_norm.item())
            if not overflowed:
                optimizer.step()
                float8.after_step(model, job.float8)
            balance(model, mesh)
            optimizer.zero_grad()
            laps.lap("optimizer")

            # Of the global batch; of a pipeline only the last rank knows any.
            dist.all_reduce(loss)
            loss_and_norm = Reading(loss * (layout.pp / world_size), gradient_norm)
            scale = next_scale(progress.loss_scale, step, overflowed) if job.precision == "fp16" else 1.0
            progress = Progress(step, progress.samples + job.batch.global_, loss=math.nan, loss_scale=scale)
            laps.lap("other")

            # All of the step is given to the device. While that is at it, the host tells of the step before.
            reports.flush()
            told_to_stop = stop.reached_any_rank()
            last = step == last_step or told_to_stop
            if last or saver.due(step):
                progress = replace(progress, loss=loss_and_norm.values()[0])
                saver.save(model, optimizer, progress, identity, last)
                laps.lap("checkpoint")
            reports.checkpoints(saver.complete())

            if step % STEPS_BETWEEN_COLLECTIONS == 0:
                gc.collect(1)
            reports.hold(
                Step(step, progress.samples, rate, loss_and_norm, laps.end_step(), memory_bytes=peak_memory(device))
            )
            if data.held_out and not told_to_stop and (step % job.evaluation.every == 0 or step == last_step):
                reports.flush()
                evaluating = time.monotonic()
                held_out_loss = evaluate(
                    model,
                    data.held_out,
                    job.evaluation.samples,
                    job.batch.micro,
                    data_rank(layout, mesh),
                    layout.dp,
                    positions,
                    rotary,
                    index.end_of_text if job.data.mask_documents else None,
                    pipeline,
                )
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
        if memory:
            memory.remove()

    if metrics:
        metrics.event(
            "end",
            step=progress.step,
            loss=progress.loss,
            loss_hex=progress.loss.hex(),
            seconds=time.monotonic() - began,
        )
        metrics.close()
        print(f"end step={progress.step}/{job.steps} loss={progress.loss:.4f} checkpoints={checkpoints}", flush=True)
    stop.ignore_from_now_on()
    # A rank that leaves while another still talks to it can fail after all its work is done.
    dist.barrier()
    return progress.step < last_step


def loss_over(tp: int) -> contextlib.AbstractContextManager[None]:
    """The context in which losses of a vocabulary that is divided over `tp` ranks are computed."""
    return loss_parallel() if tp > 1 else contextlib.nullcontext()


def place_of_this_process() -> tuple[int, int, torch.device]:
    """Rank, world size and device. CUDA where there is a GPU, else the CPU: no other device has what FSDP needs."""
    try:
        rank, world_size, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    except KeyError as error:
        raise UserError(f"{error.args[0]} is not in the environment: start the job with torchrun") from error
    if not torch.cuda.is_available():
        return rank, world_size, torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        raise UserError(
            f"this is local rank {local_rank}, but the node has {torch.cuda.device_count()} GPUs; "
            "use torchrun --nproc-per-node gpu"
        )
    torch.cuda.set_device(local_rank)
    return rank, world_size, torch.device("cuda", local_rank)


if __name__ == "__main__":
    main()
