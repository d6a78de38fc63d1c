"""Trains the model of a job file. Started on every rank by torchrun:

    torchrun --nproc-per-node 8 … -m training.train --config job.yaml [--until-step N]

What is not in the job file comes by environment: TRAINWAY_LOCATIONS (see `locations.py`) and TRAINWAY_RUN, the
directory that gets the metrics (default: runs/<name of the job>).

A run always goes on from the newest complete checkpoint of its job, wherever it was interrupted. SIGTERM and SIGUSR1,
sent to any rank or to torchrun, finish the step, write a checkpoint and exit with status 0; torchrun allows its
ranks 30 seconds for that. A mistake in the job file or its data exits with status 2 and one message.
"""

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import FSDPModule

from training import checkpoint, config
from training.batches import Samples, rank_batches
from training.checkpoint import Progress
from training.config import Job
from training.errors import UserError
from training.flops import flop_per_token, peak_flops
from training.laps import Laps
from training.locations import resolve
from training.metrics import Metrics
from training.model import Decoder, initialise, rotary_cache
from training.optimizer import clip_gradients, learning_rate, make_optimizer
from training.parallel import make_mesh, shard
from training.presets import PRESETS
from training.shards import read_index


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="training.train", description="Train the model of a job file.")
    parser.add_argument("--config", type=Path, required=True, metavar="JOB.yaml", help="the job file")
    parser.add_argument(
        "--until-step",
        type=int,
        metavar="N",
        help="stop after step N of the job's schedule, with a checkpoint that a later start goes on from",
    )
    arguments = parser.parse_args()
    job = config.load(arguments.config)
    try:
        train(job, arguments.until_step)
    except UserError as error:
        # The ranks of a host see the same files, so one of them speaks for it.
        if os.environ.get("LOCAL_RANK", "0") == "0":
            print(f"{arguments.config}: {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def train(job: Job, until_step: int | None = None) -> None:
    """Runs the job from its newest checkpoint to its last step, or to `until_step`.

    Raises:
        UserError: the job, its data or its checkpoints are not usable as they are.
    """
    began = time.monotonic()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda *_: stop.set())

    # Everything that can be wrong with the input is found before ranks begin to wait for each other.
    rank, world_size, device = place_of_this_process()
    try:
        layout = job.layout(world_size)
    except ValueError as error:
        raise UserError(str(error)) from error
    shape = PRESETS[job.model]
    data, checkpoints = resolve(job.data.train), resolve(job.checkpoint_location)
    index = read_index(data)
    samples = Samples(data, index, job.data.sequence_length, job.seed, cache_directory(job))
    last_step = job.steps if until_step is None else min(until_step, job.steps)

    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    with torch.device("meta"):
        model = Decoder(shape, index.vocabulary)
    shard(model, make_mesh(layout, device), job.precision)
    assert isinstance(model, FSDPModule)  # which is what sharding made of it
    model.to_empty(device=device)
    optimizer = make_optimizer(model, job.optimizer)
    rotary = rotary_cache(shape, job.data.sequence_length, device)

    identity: dict[str, Any] = {
        "model": asdict(shape) | {"vocabulary": index.vocabulary},
        "data": index.digest,
        "sequence_length": job.data.sequence_length,
        "seed": job.seed,
    }
    resumed_from = checkpoint.newest(checkpoints)
    if resumed_from is None:
        initialise(model, job.seed)
        progress = Progress(step=0, samples=0, loss=float("nan"))
    else:
        progress = checkpoint.load(checkpoints, resumed_from, model, optimizer, identity)

    token_flop = flop_per_token(shape, index.vocabulary, job.data.sequence_length)
    peak = peak_flops(device, job.precision)
    metrics = None
    if rank == 0:
        metrics = Metrics(Path(os.environ.get("TRAINWAY_RUN", f"runs/{job.name}")), job.steps, resumed_from)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        metrics.start(
            job=job.name,
            model=job.model,
            parameters=parameters,
            world_size=world_size,
            device=device.type,
            precision=job.precision,
            steps=job.steps,
            resumed_from=resumed_from,
            tokens_per_step=job.tokens_per_step,
            flop_per_token=token_flop,
            torch=torch.__version__.partition("+")[0],
        )

    laps = Laps(device)
    batches = rank_batches(samples, progress.samples, job.batch.global_, rank, world_size, pin=device.type == "cuda")
    with contextlib.closing(batches):
        laps.start()
        for step in range(progress.step + 1, last_step + 1):
            laps.lap("other")
            tokens = next(batches).to(device, non_blocking=True)
            laps.lap("data_wait")

            loss = torch.zeros((), device=device)
            for pass_, micro in enumerate(torch.split(tokens, job.batch.micro), start=1):
                # Gradients are added up on their rank; only the last pass sends them.
                model.set_requires_gradient_sync(pass_ == layout.accumulation_steps)
                logits = model(micro[:, :-1], rotary)
                micro_loss = F.cross_entropy(logits.flatten(0, 1).float(), micro[:, 1:].flatten())
                micro_loss = micro_loss / layout.accumulation_steps
                loss += micro_loss.detach()
                laps.lap("forward")
                micro_loss.backward()  # type: ignore[no-untyped-call]  # PyTorch has not annotated it
                laps.lap("backward")

            gradient_norm = clip_gradients(model, job.clip)
            rate = learning_rate(step, job.steps, job.optimizer.learning_rate, job.schedule)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
            laps.lap("optimizer")

            # One reduction for both: the loss of the global batch, and whether any rank was told to stop.
            totals = torch.stack((loss, torch.tensor(float(stop.is_set()), device=device)))
            dist.all_reduce(totals)
            loss_sum, told_to_stop = totals.tolist()
            progress = Progress(step, progress.samples + job.batch.global_, loss_sum / world_size)
            laps.lap("other")

            if step % job.checkpoint.every == 0 or step == last_step or told_to_stop:
                saving = time.monotonic()
                checkpoint.save(checkpoints, model, optimizer, progress, identity)
                if metrics:
                    checkpoint.prune(checkpoints, job.checkpoint.keep)
                    location = checkpoint.place(checkpoints, step)
                    metrics.event("checkpoint", step=step, location=location, seconds=time.monotonic() - saving)
                laps.lap("checkpoint")

            breakdown = laps.seconds()
            laps.start()
            if metrics:
                step_seconds = sum(breakdown.values())
                tokens_per_second = job.tokens_per_step / step_seconds
                metrics.step(
                    {
                        "step": step,
                        "loss": progress.loss,
                        "loss_hex": progress.loss.hex(),
                        "grad_norm": gradient_norm.item(),
                        "learning_rate": rate,
                        "tokens": progress.samples * job.data.sequence_length,
                        "step_seconds": step_seconds,
                        "tokens_per_second": tokens_per_second,
                        "mfu": tokens_per_second * token_flop / (peak * world_size) if peak else None,
                        "breakdown": breakdown,
                    }
                )
            if told_to_stop:
                break

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
    # A rank that leaves while another still talks to it can fail after all its work is done.
    dist.barrier()


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


def cache_directory(job: Job) -> Path:
    """The directory of this host that shards from S3 are kept in."""
    if job.data.cache:
        return Path(job.data.cache)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainway" / "shards"


if __name__ == "__main__":
    main()
