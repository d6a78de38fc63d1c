"""The training command with faults in the steps that see certain samples.

The environment variable FAULTS is a JSON list of objects: `samples`, the first and the last sample; `rank`, which has
the fault; and `kind`: gradient (a NaN in the rank's part of a gradient), loss (NaN, while the gradient is good), spike
(a gradient that is a million times larger), weight (a NaN in a weight after the step, as of a broken device), kill (the
rank gets SIGKILL), or one of three faults of the first attempt: flip (the last bit of a weight after the step), stop
(the rank gets SIGSTOP), or lock (C code that holds Python's lock and never returns).
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

run: Any = importlib.import_module("training.run")
train: Any = importlib.import_module("training.train")
FAULTS = json.loads(os.environ["FAULTS"])
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
OF_THE_FIRST_ATTEMPT = {"flip", "lock", "stop"}
step_of_batch: list[int] = [0]


def kinds() -> list[str]:
    """The faults that this rank has in the current step."""
    first, restarted = step_of_batch[0], os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
    return [
        fault["kind"]
        for fault in FAULTS
        if fault["samples"][0] <= first <= fault["samples"][1]
        and fault.get("rank", 0) == dist.get_rank()
        and not (restarted and fault["kind"] in OF_THE_FIRST_ATTEMPT)
    ]


def watch_samples() -> None:
    """Note which samples the current step sees."""
    batches = run.rank_batches

    def noting(samples: Any, first: int, global_batch: int, *rest: Any, **named: Any) -> Iterator[Tensor]:
        for number, batch in enumerate(batches(samples, first, global_batch, *rest, **named)):
            step_of_batch[0] = first + number * global_batch
            yield batch

    run.rank_batches = noting


def plant_faults() -> None:
    """Change what the step computes."""
    compute, update = train.compute_gradients, train.update_weights

    def faulty_gradients(local: Any, *rest: Any) -> Tensor:
        loss = compute(local, *rest)
        gradient = next(each.grad for each in local.model.parameters() if each.grad is not None)
        gradient = gradient.to_local() if isinstance(gradient, DTensor) else gradient
        for kind in kinds():
            if kind in SIGNALS:
                os.kill(os.getpid(), SIGNALS[kind])
            if kind == "lock":
                ctypes.PyDLL(None).sleep(1000)
            if kind == "gradient":
                gradient.view(-1)[0] = torch.nan
            if kind == "loss":
                loss *= torch.nan
            if kind == "spike":
                gradient *= 1e6
        return loss

    def faulty_update(setup: Any, *rest: Any) -> Any:
        result = update(setup, *rest)
        if "weight" in kinds():
            with torch.no_grad():
                next(setup.local.model.parameters()).to_local().view(-1)[0] = torch.nan
        if "flip" in kinds():
            next(setup.local.model.parameters()).to_local().view(torch.int32).view(-1)[0] ^= 1
        return result

    train.compute_gradients, train.update_weights = faulty_gradients, faulty_update


if __name__ == "__main__":
    watch_samples()
    plant_faults()
    train.main()
