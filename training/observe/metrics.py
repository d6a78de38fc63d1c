"""Write the metrics of a run: metrics.jsonl, TensorBoard, and one stable line per step on stdout.

The line is meant for operators that watch a job's log. LOG_LINE matches it, and future versions will keep matching it.
"""

from __future__ import annotations

import json
import math
import re
import resource
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from training.config.checkpoint_interval import ChosenInterval
from training.observe.progress import ProgressLine
from training.observe.run_state import StateWriter
from training.observe.stragglers import Straggler, straggler_sentence
from training.observe.trackers import TrackerProcesses

LOG_LINE = re.compile(
    r"step=(?P<step>\d+)/(?P<steps>\d+) loss=(?P<loss>\S+) grad_norm=(?P<grad_norm>\S+) "
    r"learning_rate=(?P<learning_rate>\S+) tokens_per_second=(?P<tokens_per_second>\d+) mfu=(?P<mfu>\S+) "
    r"step_seconds=(?P<step_seconds>\S+) data_wait=(?P<data_wait>\S+) "
    r"mfu_causal=(?P<mfu_causal>\S+) memory_gib=(?P<memory_gib>\S+)"
)


class Metrics:
    """The writer of a run's metrics. Only rank 0 has one.

    metrics.jsonl is append-only. A resumed run writes some steps again. The last line of a step is the valid one.
    """

    def __init__(
        self,
        run: Path,
        steps: int,
        resumed_from: int | None,
        state: StateWriter | None = None,
        trackers: TrackerProcesses | None = None,
    ) -> None:
        # TensorBoard imports every client of remote storage that it finds. Only rank 0 has to wait for that.
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]
        from torch.utils.tensorboard import SummaryWriter

        run.mkdir(parents=True, exist_ok=True)
        self._steps = steps
        self._state, self._trackers = state, trackers
        # Without a terminal, the log lines of the steps show the progress.
        self._progress = ProgressLine("training", steps, "steps") if sys.stderr.isatty() else None
        _drop_torn_line(run / "metrics.jsonl")
        self._file = (run / "metrics.jsonl").open("a", encoding="utf-8")
        # TensorBoard hides what an interrupted run wrote for this step and later ones.
        purge_step = None if resumed_from is None else resumed_from + 1
        self._board, self._summary = SummaryWriter(str(run / "tensorboard"), purge_step=purge_step), Summary

    def start(self, **values: Any) -> None:
        """Report the start of a run with its description."""
        self.event("start", **values)
        print("start " + " ".join(f"{name}={value}" for name, value in values.items()), flush=True)

    def event(self, event: str, **values: Any) -> None:
        """Append one complete event."""
        self._file.write(json.dumps({"event": event, "time": time.time(), **values}) + "\n")
        self._file.flush()
        if self._state:
            self._state.take(event, values)

    def step(self, values: dict[str, Any]) -> None:
        """Report one optimizer step to metrics.jsonl, TensorBoard, and stdout."""
        self.event("step", **values)
        numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
        # TensorBoard cannot draw what is not a number, and draws no other point of the curve either.
        flat = {name: value for name, value in numbers.items() if name != "step" and math.isfinite(value)}
        flat |= {f"breakdown/{phase}": seconds for phase, seconds in values["breakdown"].items()}
        self._draw(values["step"], flat)
        mfu, mfu_causal = ("-" if values[name] is None else f"{values[name]:.4f}" for name in ("mfu", "mfu_causal"))
        if self._progress:
            self._progress.clear()
        print(
            f"step={values['step']}/{self._steps} loss={values['loss']:.4f} grad_norm={values['grad_norm']:.4f} "
            f"learning_rate={values['learning_rate']:.3e} tokens_per_second={values['tokens_per_second']:.0f} "
            f"mfu={mfu} step_seconds={values['step_seconds']:.3f} data_wait={values['breakdown']['data_wait']:.3f} "
            f"mfu_causal={mfu_causal} memory_gib={values['memory_bytes'] / 2**30:.2f}",
            flush=True,
        )
        if self._progress:
            self._progress.update(values["step"])

    def _draw(self, step: int, numbers: dict[str, float]) -> None:
        """Add numbers to TensorBoard. One record takes a tenth of the time of a record for each number."""
        found = [self._summary.Value(tag=name, simple_value=number) for name, number in numbers.items()]
        self._board.file_writer.add_summary(self._summary(value=found), step)  # type: ignore[attr-defined]

    def skipped(self, step: int, reason: str) -> None:
        """Report that a step changed nothing, after the report of its numbers."""
        if self._progress:
            self._progress.clear()
        print(f"skipped step={step}/{self._steps}: {reason}", flush=True)

    def evaluation(self, step: int, loss: float, seconds: float) -> None:
        """Report the loss on held-out samples, in nats per token, and the seconds that the evaluation took."""
        self.event("evaluation", step=step, loss=loss, loss_hex=loss.hex(), seconds=seconds)
        self._draw(step, {"evaluation/loss": loss})
        if self._progress:
            self._progress.clear()
        print(f"evaluation step={step}/{self._steps} loss={loss:.4f} seconds={seconds:.3f}", flush=True)

    def stragglers(self, step: int, found: list[Straggler]) -> None:
        """Report the ranks that are slower than the others, or that there are none any more."""
        told = straggler_sentence(found)
        self.event("stragglers", step=step, reason=told, stragglers=[asdict(each) for each in found])
        if self._progress:
            self._progress.clear()
        print(f"stragglers: step {step}: {told}", file=sys.stderr, flush=True)

    def interval(self, chosen: ChosenInterval) -> None:
        """Report an interval between checkpoints that the job has chosen, with the figures behind it."""
        self.event("checkpoint_interval", seconds=chosen.seconds, **asdict(chosen))
        if self._progress:
            self._progress.clear()
        print(f"checkpoint interval: {chosen.sentence}", flush=True)

    def close(self, state: str = "succeeded") -> None:
        """Write what is still buffered, and that the run is `succeeded` or `stopped`."""
        if self._progress:
            self._progress.clear()
        self._file.close()
        self._board.close()
        if self._trackers:
            self._trackers.close(state)
        if self._state:
            self._state.close(state)


def peak_memory(device: torch.device) -> int:
    """Return the most memory in bytes that this process has used so far, on its device, or on a CPU in the host."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # from KiB


def _drop_torn_line(path: Path) -> None:
    """Remove an incomplete last line, which a host that lost power leaves behind."""
    if path.is_file():
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            path.write_bytes(content[:whole])
