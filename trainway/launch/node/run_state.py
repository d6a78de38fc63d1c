"""The state of a run, which the starter writes to the bucket of the platform: `trainway status` shows it everywhere.

The launcher names the object in the environment variable TRAINWAY_STATE. The node that leads writes it, and any node
that fails. At first, the first node leads, and then the one with rank 0. The bucket is asked by a process of its own,
so that the starter waits for no answer before the end of the run.
trainway/launch/registry/state.py describes the content.
"""

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from trainway.launch.node.nodes_of_run import DIRECTORY, read_nodes

VERSION = 1
SECONDS_BETWEEN_WRITES = float(os.environ.get("TRAINWAY_STATE_SECONDS", "60"))
# How long the end of a run waits for a bucket that does not answer.
_LONGEST_END_SECONDS = 5.0
# The pace of a run is the median of its last steps, so that a checkpoint or an evaluation does not change it.
_STEPS_OF_PACE = 50


class NodesInState:
    """The nodes of a start of a run, as a node finds them: in the directory of the run, or in its copy in S3.

    run_files.py and sagemaker_host.py name the copy on nodes that share no directory. Each write of the state fetches
    the files that the next one reads.
    """

    def __init__(self, run: Path, start: str) -> None:
        self._directories, self._start = [run / DIRECTORY], start
        self.fetches: list[str] = []
        # Without space for them, the program starts.
        with contextlib.suppress(OSError):
            if location := os.environ.get("TRAINWAY_RUN_LOCATION"):
                fetched = tempfile.mkdtemp(prefix="trainway-nodes-")
                self._directories.append(Path(fetched))
                self.fetches = [f"{location.rstrip('/')}/{DIRECTORY}/", fetched]

    def read(self) -> "list[str]":
        """Return the names of the nodes, as far as this node knows them."""
        return read_nodes(self._directories, self._start)


class NodeState:
    """The state of a run as one node knows it. `environment` is that of the processes that write it.

    `leads` says whether this node reads the steps, and writes the state.
    Writes happen every SECONDS_BETWEEN_WRITES, also without a new step, and at the end. One that fails is reported
    once.
    """

    def __init__(self, attempt: int, started: float, nodes: "NodesInState | None" = None, *, leads: bool) -> None:
        self._location = os.environ.get("TRAINWAY_STATE")
        self._nodes, self.leads = nodes, leads
        self._now: dict[str, Any] = {"state": "running", "attempt": attempt, "started": started}
        if restarts := os.environ.get("TRAINWAY_RESTARTS"):
            self._now["restarts"] = int(restarts)
        self._has_step = False
        self._paces: list[float] = []
        self._stepped = 0.0
        self._lock = threading.Lock()
        self._next_write = 0.0
        self._is_reported = False
        self._writer: subprocess.Popen[str] | None = None
        self.environment = dict(os.environ)

    def take(self, values: "dict[str, float]", *, is_progress: bool = True) -> None:
        """Take the numbers of an event: `step`, `steps`, and `loss` are known here.

        Without `is_progress`, the step is shown, and can be of something else than the training.
        """
        with self._lock:
            # The clock of a node can jump.
            before, step, now = self._now.get("step"), values.get("step"), time.monotonic()
            if step is not None and step != before:
                if before is not None and step > before:
                    if is_progress:
                        spent = self._now.get("stepping", 0.0) + now - self._stepped
                        self._now["stepping"] = round(spent, 3)
                    self._paces = [*self._paces, (now - self._stepped) / (step - before)][-_STEPS_OF_PACE:]
                self._stepped, self._now["stepped"] = now, time.time()
                if is_progress and math.isfinite(step):
                    self._now.setdefault("first_step", step)
            known = {name: values[name] for name in ("step", "steps", "loss") if values.get(name) is not None}
            # JSON has neither NaN nor Infinity, and other programs refuse them.
            self._now.update({name: value for name, value in known.items() if math.isfinite(value)})
            self._has_step = self._has_step or (is_progress and "step" in self._now)

    @property
    def has_step(self) -> bool:
        """Whether the program has said a step of the training."""
        return self._has_step

    @property
    def stepped(self) -> "float | None":
        """The time of the last new step in seconds since the epoch, or None."""
        with self._lock:
            return self._now.get("stepped")

    @property
    def step_seconds(self) -> "float | None":
        """The time of a step in seconds, from the last ones, or None."""
        with self._lock:
            return statistics.median(self._paces) if self._paces else None

    @property
    def is_in_bucket(self) -> bool:
        """Whether the bucket of a platform has the state."""
        return self._location is not None

    def look(self) -> None:
        """Begin to write what is new, if it is time to, and take the result of the write before."""
        if self._location is None or not self.leads or time.monotonic() < self._next_write:
            return
        if self._writer is not None and self._writer.poll() is None:
            return
        self._finish()
        # A state that nobody writes any more tells that the node is lost, also for a program that reports no steps.
        self._next_write = time.monotonic() + SECONDS_BETWEEN_WRITES
        self._begin()

    def end(self, state: str, reason: str, status: int) -> None:
        """Write how the run ended. A node that does not lead writes only that it failed."""
        if self._location is None or not (self.leads or state == "failed"):
            return
        with self._lock:
            self._now.update({"state": state, "reason": reason or None, "exit_status": status})
        if self._writer is not None:
            # What it writes is older, and the orchestrator may kill this process soon.
            self._writer.kill()
            self._writer.wait()
            self._writer = None
        self._begin()
        self._wait()

    def _begin(self) -> None:
        nodes = self._nodes.read() if self._nodes else []
        with self._lock:
            if nodes:
                self._now["nodes"] = nodes
            pace = {"step_seconds": statistics.median(self._paces)} if self._paces else {}
            text = json.dumps({**self._now, **pace, "schema_version": VERSION, "written": time.time()})
        assert self._location is not None
        helper = str(Path(__file__).with_name("aws_on_node.py"))
        try:
            self._writer = subprocess.Popen(
                [sys.executable, helper, "state", self._location, text, *(self._nodes.fetches if self._nodes else ())],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        except OSError as problem:
            self._report(str(problem))

    def _wait(self) -> None:
        if self._writer is None:
            return
        try:
            self._writer.wait(_LONGEST_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._writer.kill()
            self._report(f"the bucket has not answered for {_LONGEST_END_SECONDS:g} seconds")
        self._finish()

    def _finish(self) -> None:
        """Report why the last write failed, if it did."""
        if self._writer is None:
            return
        said = self._writer.stdout.read().strip() if self._writer.stdout else ""
        # A write that the end of the program has killed says nothing.
        if self._writer.wait() and said:
            self._report(said.splitlines()[-1])
        self._writer = None

    def _report(self, why: str) -> None:
        if not self._is_reported:
            self._is_reported = True
            told = f"trainway: the state of the run cannot be written, and `trainway status` is old: {why}"
            print(told, file=sys.stderr, flush=True)
