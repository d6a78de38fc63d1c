"""Numbers in what a program writes: as events in the file of metrics of the run, or as its state."""

import contextlib
import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from trainway.launch.node.node_rank import has_other_nodes
from trainway.launch.node.rank_zero import has_rank_zero
from trainway.launch.node.run_state import NodeState

if TYPE_CHECKING:
    from trainway.launch.node.program_metrics import MetricFiles
    from trainway.launch.node.progress_bars import ProgressBars

SECONDS_BETWEEN_LOOKS_AT_METRICS = 5.0
_SECONDS_UNTIL_RANKS = 0.5
PROGRESS = "progress.json"
"""The file of a run with the numbers of its progress bar."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class MetricsInOutput:
    """The numbers in the output of the node that leads, as events in metrics.jsonl of the run.

    The numbers of a progress bar are no events, because a bar shows the loss of this step beside the number of the step
    before, or an average. They are in the state of the run, or in the file PROGRESS of a run without a bucket.
    """

    def __init__(self, run: Path, definitions: "list[str]", state: NodeState) -> None:
        pairs = [each.partition("=")[::2] for each in definitions]
        self._patterns = {name: re.compile(pattern) for name, pattern in pairs}
        self._file = run / "metrics.jsonl"
        self._progress = run / PROGRESS
        self._bars: ProgressBars | None = None
        self._numbers_of_bar: dict[str, float] = {}
        self._has_new_numbers = False
        self._state = state
        self._values: dict[str, float] = {}
        self._written_step: float | None = None
        self._lock = threading.Lock()
        self._files: MetricFiles | None = None
        self._next_look = self._next_look_at_ranks = 0.0
        self._has_others = has_other_nodes()

    @property
    def has_step(self) -> bool:
        """Whether the program has said a step."""
        return self._state.has_step

    def read(self, line: str) -> None:
        """Take the numbers of a line. A carriage return ends a line too, as progress bars write it."""
        if not self._leads():
            return
        if not self._patterns:
            self.read_bar(line)
            return
        for part in _ESCAPES.sub("", line).split("\r"):
            found = {name: match for name, pattern in self._patterns.items() if (match := pattern.search(part))}
            values = {name: value for name, match in found.items() if (value := _number(match.group(1))) is not None}
            if values:
                with self._lock:
                    self._take(values)

    def read_bars(self) -> None:
        """Read the progress bars from now on."""
        # Sent only for programs whose job file names no metrics.
        from trainway.launch.node.progress_bars import ProgressBars

        self._bars = ProgressBars()

    def read_bar(self, line: str) -> None:
        """Take the numbers of the progress bar in a line."""
        if self._bars is None or not self._leads():
            return
        with self._lock:
            for part in line.split("\r"):
                if values := self._bars.read(part):
                    self._state.take(values, is_progress=self._bars.is_of_training)
                    self._numbers_of_bar.update(values)
                    self._has_new_numbers = True

    def read_files(self, directory: Path, pattern: str) -> None:
        """Read the files below a directory from now on, whenever `look` is called."""
        # Sent only for programs that write such files.
        from trainway.launch.node.program_metrics import MetricFiles

        self._files = MetricFiles(directory, pattern)

    def look(self, *, at_once: bool = False) -> None:
        """Write the events of what was written into the files, at most every SECONDS_BETWEEN_LOOKS_AT_METRICS."""
        self._state.look()
        if not (at_once or time.monotonic() >= self._next_look):
            return
        self._next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS_AT_METRICS
        if self._has_new_numbers and not self._state.is_in_bucket:
            self._keep_progress()
        for values in self._files.new() if self._files is not None and self._leads() else ():
            self._append(values)

    def close(self) -> None:
        """Write the last events."""
        self.look(at_once=True)
        with self._lock:
            self._write()

    def _leads(self) -> bool:
        """Return whether this node leads. The ranks can have moved to another node since the last look."""
        if self._has_others and time.monotonic() >= self._next_look_at_ranks:
            found = has_rank_zero()
            self._state.leads = self._state.leads if found is None else found
            pause = _SECONDS_UNTIL_RANKS if found is None else SECONDS_BETWEEN_LOOKS_AT_METRICS
            self._next_look_at_ranks = time.monotonic() + pause
        return self._state.leads

    def _keep_progress(self) -> None:
        with self._lock:
            self._has_new_numbers, text = False, json.dumps(self._numbers_of_bar)
        # A reader finds the old file or the new one. Without space for it, the program continues.
        with contextlib.suppress(OSError):
            new = self._progress.with_suffix(".new")
            new.write_text(text)
            new.replace(self._progress)

    def _take(self, values: "dict[str, float]") -> None:
        if "step" in self._patterns and "step" in values and values["step"] != self._values.get("step"):
            self._write()
            self._values = {}
        self._values.update(values)
        if set(self._values) == set(self._patterns) or "step" not in self._patterns:
            self._write()

    def _write(self) -> None:
        values, step = self._values, self._values.get("step")
        # Several ranks may print one step.
        if not values or (step is not None and step == self._written_step):
            return
        self._written_step = step
        if "step" not in self._patterns:
            self._values = {}
        self._append(values)

    def _append(self, values: "dict[str, float]") -> None:
        self._state.take(values)
        try:
            with self._file.open("a") as file:
                file.write(json.dumps({"event": "metrics", "time": time.time(), **values}) + "\n")
        except OSError as problem:
            print(f"trainway: {problem}", file=sys.stderr, flush=True)
            self._patterns = {}


def _number(text: str) -> "float | None":
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else value
