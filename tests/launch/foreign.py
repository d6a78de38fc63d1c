"""A program that knows nothing of Trainway: a file that torchrun starts, with a checkpoint of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

# It counts steps, and saves each. `STEPS` is the last one.
TRAIN = """\
import os, pathlib, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
state = pathlib.Path(os.environ["TRAINWAY_OUTPUT"]) / "step"
step = int(state.read_text()) if state.exists() else 0
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} ranks begin after step {step}", flush=True)
while step < int(os.environ["STEPS"]):
    step += 1
    loss = torch.tensor(1.0 / step)
    dist.all_reduce(loss)
    if dist.get_rank() == 0:
        unfinished = state.with_suffix(".new")
        unfinished.write_text(str(step))
        unfinished.replace(state)
        print(f"step={step} loss={loss.item():.4f}", flush=True)
    time.sleep(0.1)
dist.destroy_process_group()
"""

# This program does not import torch, which takes more than a second. Rank 0 counts, and the other ranks wait.
COUNT = """\
import os, pathlib, time

state = pathlib.Path(os.environ["TRAINWAY_OUTPUT"]) / "step"
rank = int(os.environ["RANK"])

def saved():
    return int(state.read_text()) if state.exists() else 0

step = saved()
if rank == 0:
    print(f"{os.environ['WORLD_SIZE']} ranks begin after step {step}", flush=True)
while step < int(os.environ["STEPS"]):
    time.sleep(0.1)
    if rank != 0:
        step = saved()
        continue
    step += 1
    unfinished = state.with_suffix(".new")
    unfinished.write_text(str(step))
    unfinished.replace(state)
    print(f"step={step} loss={1 / step:.4f}", flush=True)
"""


# It saves a checkpoint, and ends.
SAVES = ["sh", "-c", "mkdir -p $TRAINWAY_OUTPUT/step-4 && echo weights >$TRAINWAY_OUTPUT/step-4/model.pt"]


def write_foreign_job(directory: Path, *, steps: int = 5, program: str = TRAIN, **changes: Any) -> Path:
    """Write the program and its job file, with some keys of the section `run` changed."""
    code = directory / "code"
    code.mkdir(exist_ok=True)
    (code / "train.py").write_text(program)
    nodes = changes.pop("nodes", 1)
    run = {
        "command": ["torchrun", "train.py"],
        "code": "code",
        "environment": {"STEPS": str(steps)},
        "stop": {"grace": 20},
        "metrics": {"step": r"step=(\d+)", "loss": r"loss=([\d.]+)"},
        **changes,
    }
    file = directory / "foreign.yaml"
    run = {key: value for key, value in run.items() if value is not None}
    file.write_text(yaml.safe_dump({"name": "foreign", "nodes": nodes, "run": run}))
    return file
