"""The training command with a rank that is slower than the others, and with frequent reports of stragglers.

torchrun … -m benchmarks.slow_rank --config JOB.yaml

The environment variable SLOW is a JSON object: `rank`, which is slow; `kind`: computation (each layer takes the
processor for longer, in both passes) or data (each batch comes later); `part`, the part of the usual time that is added
to each layer, or the seconds that are added to each batch; and `steps`, the first and the last slow step. Without the
variable, no rank is slow. STEPS_OF_REPORT is the number of steps of a report.

COUNT replaces the processor time of the layers by a count: each pass through a layer takes one second, or with
`computation` one second and `part`. A test uses it, because processor time is never the same twice.

REPORTS is a file. Rank 0 appends a line for each comparison: the seconds of each rank's work.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist
from torch import Tensor

from training.model.decoder import Layer
from training.observe.stragglers import LocalWork, Straggler

train: Any = importlib.import_module("training.train")
run: Any = importlib.import_module("training.run")
watch: Any = importlib.import_module("training.observe.straggler_watch")
layer_times: Any = importlib.import_module("training.observe.layer_times")
SLOW = json.loads(os.environ.get("SLOW", "{}"))
COUNTS = "COUNT" in os.environ
is_slow: list[bool] = [False]
counted: list[float] = [0.0]


def slow_layers() -> None:
    """Let each layer compute for longer, in proportion to what it has computed."""
    forward = Layer.forward

    def slower(self: Layer, hidden: Tensor, *rest: Any) -> Tensor:
        began, backward = time.thread_time(), list[float]()
        # A tensor of its own, whose gradient is known before the layer counts as finished.
        inner = hidden.view_as(hidden)
        if inner.requires_grad:
            on_gradient(inner, lambda _: compute_after(backward.pop()))
        output = forward(self, inner, *rest)
        if output.requires_grad:
            on_gradient(output, lambda _: backward.append(time.thread_time()))
        compute_after(began)
        return output

    Layer.forward = slower  # type: ignore[method-assign, assignment]


def on_gradient(tensor: Tensor, call: Callable[[Tensor], None]) -> None:
    """Call a function when the gradient of a tensor is known."""
    tensor.register_hook(call)  # type: ignore[no-untyped-call]


def compute_after(began: float) -> None:
    """Compute for a part of the processor time since `began`, in a slow step."""
    part = SLOW["part"] if is_slow[0] else 0.0
    if COUNTS:
        counted[0] += 1 + part
        return
    now = time.thread_time()
    end = now + part * (now - began)
    while time.thread_time() < end:
        pass


def slow_steps() -> None:
    """Note which steps are slow, and let their batches come later."""
    batches = run.rank_batches

    def noting(samples: Any, first: int, global_batch: int, *rest: Any, **named: Any) -> Iterator[Tensor]:
        step = first // global_batch
        for batch in batches(samples, first, global_batch, *rest, **named):
            step += 1
            begin, end = SLOW["steps"]
            is_in = begin <= step <= end and dist.get_rank() == SLOW["rank"]
            is_slow[0] = is_in and SLOW["kind"] == "computation"
            if is_in and SLOW["kind"] == "data":
                time.sleep(SLOW["part"])
            yield batch

    run.rank_batches = noting


def note_reports() -> None:
    """Write down what rank 0 compares."""
    compare = watch.slow_ranks

    def noting(works: Sequence[LocalWork]) -> list[Straggler]:
        with Path(os.environ["REPORTS"]).open("a") as file:
            file.write(json.dumps([work.total for work in works]) + "\n")
        found: list[Straggler] = compare(works)
        return found

    watch.slow_ranks = noting


def main() -> None:
    """Train, with what the environment says of the slow rank."""
    watch.STEPS_OF_REPORT, watch.SECONDS_BETWEEN_REPORTS = int(os.environ.get("STEPS_OF_REPORT", "50")), 0.0
    if SLOW or COUNTS:
        slow_layers()
    if SLOW:
        slow_steps()
    if COUNTS:
        layer_times.time = SimpleNamespace(thread_time=lambda: counted[0])
    if "REPORTS" in os.environ:
        note_reports()
    train.main()


if __name__ == "__main__":
    main()
