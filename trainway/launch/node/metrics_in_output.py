"""Numbers in what a program writes, as events in the file of metrics of the run."""

import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from trainway.launch.node.run_state import NodeState

if TYPE_CHECKING:
    from trainway.launch.node.program_metrics import MetricFiles

SECONDS_BETWEEN_LOOKS_AT_METRICS = 5.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class MetricsInOutput:
    """The numbers in the output of the first node, as events in metrics.jsonl of the run."""

    def __init__(self, run: Path, definitions: "list[str]", first: bool, state: NodeState) -> None:
        pairs = [each.partition("=")[::2] for each in definitions] if first else []
        self._patterns = {name: re.compile(pattern) for name, pattern in pairs}
        self._file = run / "metrics.jsonl"
        self._state = state
        self._values: dict[str, float] = {}
        self._written_step: float | None = None
        self._lock = threading.Lock()
        self._files: MetricFiles | None = None
        self._next_look = 0.0

    def read(self, line: str) -> None:
        """Take the numbers of a line. A carriage return ends a line too, as progress bars write it."""
        if not self._patterns:
            return
        for part in _ESCAPES.sub("", line).split("\r"):
            found = {name: match for name, pattern in self._patterns.items() if (match := pattern.search(part))}
            values = {name: value for name, match in found.items() if (value := _number(match.group(1))) is not None}
            if values:
                with self._lock:
                    self._take(values)

    def read_files(self, directory: Path, pattern: str) -> None:
        """Read the files below a directory from now on, whenever `look` is called."""
        # Sent only for programs that write such files.
        from trainway.launch.node.program_metrics import MetricFiles

        self._files = MetricFiles(directory, pattern)

    def look(self, *, at_once: bool = False) -> None:
        """Write the events of what was written into the files, at most every SECONDS_BETWEEN_LOOKS_AT_METRICS."""
        self._state.look()
        if self._files is None or not (at_once or time.monotonic() >= self._next_look):
            return
        self._next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS_AT_METRICS
        for values in self._files.new():
            self._append(values)

    def close(self) -> None:
        """Write the last events."""
        self.look(at_once=True)
        with self._lock:
            self._write()

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
