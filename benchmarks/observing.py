"""Measure what the observation of a run adds to a step of the training loop.

    python -m benchmarks.observing

One process trains, and its steps take turns (see turns.py): every third step is observed, and is scraped once, which is
more often than any Prometheus does. The two others are not observed: the second is the control, whose ratio to the
first says what the machine resolves. The observation is the laps, the times of a layer, metrics.jsonl, TensorBoard, the
line of the log, and the metrics for Prometheus.

The figure is the processor time of the observation in an observed step, over all processor time of the step before or
after it that is not observed. Of the observation are its calls in the thread of the loop, and its own threads. A call
is measured where it happens, so its code and its data are as cold as in any run. The threads that watch for hangs are
measured in all steps.
"""

import argparse
import functools
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

import training.run
from benchmarks.one_rank import environment
from benchmarks.overhead import run_job
from benchmarks.record import arguments, record
from benchmarks.turns import MARK, Spread, ratios, take_turns
from training.data.corpus import python_standard_library
from training.observe.laps import Laps
from training.observe.layer_times import LayerTimes
from training.observe.reports import Reading, Reports
from training.observe.straggler_watch import StragglerWatch
from training.observe.watchdog import Watchdog
from training.prepare import prepare

WARM_UP, ROUNDS = 3, 40
KINDS = ("without", "observed", "without again")
STEPS = len(KINDS) * (WARM_UP + ROUNDS)
Calls = dict[Any, tuple[str, ...]]
LEFT_OUT: Calls = {
    Laps: ("start", "lap", "end_step"),
    LayerTimes: ("_before", "_after", "end_step"),
    StragglerWatch: ("end_step",),
    Reports: ("hold", "flush", "checkpoints", "failed_saves"),
    training.run: ("peak_memory",),
}
"""The calls of the loop that a step without observation leaves out."""
KEPT: Calls = {LayerTimes: ("_end_backward", "_mark"), Reading: ("__init__",)}
"""Calls that belong to the observation, and that the loop needs, or that only follow one which is left out."""
_DO_NOT_OBSERVE = ("data", "shards", "lease")
"""Prefixes of the names of threads."""


def main() -> None:
    """Measure the seconds of a step with and without observation, and the part of the observation in them."""
    parser = arguments("observing", __doc__)
    parser.add_argument("--only", metavar="CORPUS", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.only:
        torch.set_num_threads(1)
        observed_now_and_then(Path(chosen.only))
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        prepare(python_standard_library(limit_bytes=1_000_000), directory, vocabulary=512)
        loop = started(directory, port)
        turns = {kind: partial(step, loop, kind, port) for kind in KINDS}
        steps = {kind: each[WARM_UP:] for kind, each in take_turns(turns, WARM_UP + ROUNDS).items()}
        loop.communicate("without\n" * 2)
    record(figures(steps), libraries=["torch", "tensorboard"], out=chosen.out)


def figures(steps: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Return the spreads of the seconds of the steps, and their ratios to the neighbors without observation."""
    observed = steps["observed"]
    watchdog = [each["watchdog"] for each in steps["without"]]
    found: dict[str, Any] = {
        "bytes_of_a_scrape": max(each["scraped"] for each in observed),
        "watchdog_over_a_step_by_processor": ratios(
            watchdog, [each["processor"] for each in steps["without"]]
        ).document(),
    }
    for clock in ("processor", "wall"):
        seconds = {kind: [each[clock] for each in of_kind] for kind, of_kind in steps.items()}
        part = [each[f"observation_{clock}"] for each in observed]
        found |= {
            f"{clock}_seconds_of_the_observation": Spread.of(part).document(),
            f"observation_over_a_step_by_{clock}": ratios(part, seconds["without"]).document(),
            f"{clock}_seconds_of_a_step": {kind: Spread.of(each).document() for kind, each in seconds.items()},
            f"{clock}_seconds_over_without": {
                kind: ratios(each, seconds["without"]).document() for kind, each in seconds.items() if kind != "without"
            },
        }
    return found


def started(corpus: str, port: int) -> subprocess.Popen[str]:
    """Start the process of the loop, which waits before every step for the kind of the step."""
    command = [sys.executable, "-m", "benchmarks.observing", "--only", corpus]
    told = environment() | {"TRAINWAY_METRICS": f"127.0.0.1:{port}"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=told)


def step(loop: subprocess.Popen[str], kind: str, port: int) -> dict[str, float]:
    """Let the loop take a step of a kind, scrape it meanwhile if it is observed, and return what the loop measured.

    Raises RuntimeError if the loop has ended, or if it did not answer the scrape.
    """
    assert loop.stdin and loop.stdout
    loop.stdin.write(f"{kind}\n")
    loop.stdin.flush()
    scraped = list[int]()
    scraping = threading.Thread(target=lambda: scraped.append(scrape(port)))
    if kind == "observed":
        scraping.start()
    for line in loop.stdout:
        if line.startswith(MARK):
            found: dict[str, float] = json.loads(line.removeprefix(MARK))
            if kind == "observed":
                scraping.join()
                if not scraped:
                    raise RuntimeError("a scrape was not answered")
                found["scraped"] = scraped[0]
            return found
    raise RuntimeError(f"the loop ended with status {loop.wait()}")


def scrape(port: int) -> int:
    """Return the bytes of an answer."""
    time.sleep(0.02)  # the step has begun
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return len(answer.read())


class Clocks(NamedTuple):
    """The seconds of the process and by the clock, and those of its threads.

    `others` are the threads of PyTorch, and the ones that read data or renew a lease.
    """

    processor: float
    wall: float
    loop: float
    watchdog: float
    others: float


class Observation:
    """The seconds of the observation in a step, in the thread of the loop, and whether the step is observed."""

    def __init__(self) -> None:
        self.is_observed = True
        self._depth = 0
        self._began: Clocks | None = None
        self.processor = self.wall = 0.0

    def measured(self, call: Callable[..., Any], *, left_out: bool) -> Callable[..., Any]:
        """Return a call whose seconds are counted, and which does nothing in a step without observation if asked to."""

        @functools.wraps(call)
        def replaced(*words: Any, **named: Any) -> Any:
            if not self.is_observed:
                return None if left_out else call(*words, **named)
            self._depth += 1
            processor, wall = time.thread_time(), time.perf_counter()
            try:
                return call(*words, **named)
            finally:
                self._depth -= 1
                if not self._depth:  # of nested calls, the outer one counts
                    self.processor += time.thread_time() - processor
                    self.wall += time.perf_counter() - wall

        return replaced

    def next(self) -> None:
        """End a step, report its seconds, and wait until told the kind of the next step."""
        now = clocks()
        if self._began:
            spent = Clocks(*(after - before for after, before in zip(now, self._began, strict=True)))
            measured = {
                "processor": spent.processor,
                "wall": spent.wall,
                "observation_processor": self.processor + spent.processor - spent.loop - spent.watchdog - spent.others,
                "observation_wall": self.wall,
                "watchdog": spent.watchdog,
            }
            print(f"{MARK}{json.dumps(measured)}", flush=True)
        self.is_observed = sys.stdin.readline().strip() == "observed"
        self.processor = self.wall = 0.0
        self._began = clocks()


def clocks() -> Clocks:
    """Return the seconds so far."""
    threads = {str(each.native_id): each.name for each in threading.enumerate()}
    watchdog, others = 0.0, 0.0
    for task in Path("/proc/self/task").iterdir():
        # Nanoseconds on a processor: https://docs.kernel.org/scheduler/sched-stats.html (read 2026-12-01)
        seconds = int((task / "schedstat").read_text().split()[0]) / 1e9
        name = threads.get(task.name, "")
        if name.startswith("watchdog"):
            watchdog += seconds
        elif not name or name.startswith(_DO_NOT_OBSERVE):
            others += seconds
    return Clocks(time.process_time(), time.perf_counter(), time.thread_time(), watchdog, others)


def observed_now_and_then(corpus: Path) -> None:
    """Run the job's own loop, and leave the observation out of the steps that are not to be observed."""
    observation = Observation()
    for calls, left_out in ((LEFT_OUT, True), (KEPT, False)):
        for owner, names in calls.items():
            for name in names:
                setattr(owner, name, observation.measured(getattr(owner, name), left_out=left_out))
    begin, open_watch = Watchdog.step, StragglerWatch.__init__

    def step_begins(watchdog: Watchdog) -> None:
        observation.next()
        begin(watchdog)

    def with_layer(watch: StragglerWatch, layers: Any, stage: int, device: torch.device) -> None:
        open_watch(watch, layers, stage, device)
        watch._layer = LayerTimes(layers[len(layers) // 2], device)  # as in a run of several ranks

    Watchdog.step = step_begins  # type: ignore[method-assign, assignment]
    StragglerWatch.__init__ = with_layer  # type: ignore[method-assign, assignment]
    run_job(corpus, STEPS + 1)


if __name__ == "__main__":
    main()
