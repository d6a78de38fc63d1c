"""Measure what the metrics for Prometheus add to a step of the training loop.

    python -m benchmarks.exporter

Three processes run the same job, and take turns step by step (see turns.py). One has metrics, and is scraped once in
each of its steps, which is more often than any Prometheus does. Two have none: the second is the control, whose ratio
to the first says what the machine resolves. The figure is the processor time of all threads in a step.
"""

import argparse
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
from typing import Any

import torch

from benchmarks.one_rank import environment
from benchmarks.overhead import WARM_UP, ours, step
from benchmarks.record import arguments, record
from benchmarks.turns import Spread, ratios, take_turns
from training.data.corpus import python_standard_library
from training.observe.exporter import Exporter
from training.observe.laps import PHASES
from training.prepare import prepare

ROUNDS = 40
LOOPS = ("without", "without again", "with metrics")


def main() -> None:
    """Measure the seconds of a step of each loop, and their ratios to the loop without metrics."""
    parser = arguments("exporter", __doc__)
    parser.add_argument("--only", metavar="CORPUS", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.only:
        torch.set_num_threads(1)
        ours(Path(chosen.only))
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        prepare(python_standard_library(limit_bytes=1_000_000), directory, vocabulary=512)
        running = {loop: started(directory, port if loop == "with metrics" else None) for loop in LOOPS}
        scraped = list[int]()
        turns: dict[str, Callable[[], tuple[float, float]]] = {
            loop: partial(scraped_step, each, port, scraped) if loop == "with metrics" else partial(step, each)
            for loop, each in running.items()
        }
        alone = Alone()
        steps = take_turns({**turns, "alone": alone.seconds}, WARM_UP + ROUNDS)
        alone.close()
        added = [each for each, _ in steps.pop("alone")[WARM_UP:]]
        for each in running.values():
            each.communicate("\n" * 2)
    if len(scraped) < ROUNDS or not all(scraped[WARM_UP:]):
        raise RuntimeError(f"only {sum(map(bool, scraped))} of {len(scraped)} scrapes were answered")
    without = [processor for processor, _ in steps["without"][WARM_UP:]]
    figures: dict[str, Any] = {
        "bytes_of_a_scrape": max(scraped),
        "processor_seconds_of_hooks_and_a_scrape": Spread.of(added).document(),
        "hooks_and_a_scrape_over_a_step": ratios(added, without).document(),
    }
    for number, clock in enumerate(("processor", "wall")):
        seconds = {loop: [each[number] for each in of_loop[WARM_UP:]] for loop, of_loop in steps.items()}
        figures[f"{clock}_seconds_of_a_step"] = {loop: Spread.of(each).document() for loop, each in seconds.items()}
        figures[f"{clock}_seconds_over_without"] = {
            loop: ratios(each, seconds["without"]).document() for loop, each in seconds.items() if loop != "without"
        }
    record(figures, libraries=["torch"], out=chosen.out)


class Alone:
    """An exporter without a loop, which takes a step and answers a scrape when it is asked to."""

    TIMES = 20

    def __init__(self) -> None:
        description = {"job": "overhead", "model": "tiny", "precision": "fp32", "world_size": 1, "steps": 1000}
        self._exporter = Exporter("127.0.0.1", 0, description, 1000, resumed_from=None)
        self._values = {
            **dict.fromkeys(("step", "loss", "grad_norm", "tokens_per_second", "mfu", "memory_bytes"), 0.5),
            "step_seconds": 1.0,
            "skipped": False,
            "breakdown": dict.fromkeys(PHASES, 0.1),
        }

    def seconds(self) -> tuple[float, float]:
        """Return the processor seconds and the seconds by the clock of one step with one scrape, client included."""
        processor, wall = time.process_time(), time.perf_counter()
        for _ in range(self.TIMES):
            self._exporter.step(self._values)
            with urllib.request.urlopen(f"http://127.0.0.1:{self._exporter.port}/metrics", timeout=60) as answer:
                answer.read()
        return (time.process_time() - processor) / self.TIMES, (time.perf_counter() - wall) / self.TIMES

    def close(self) -> None:
        """Close the port."""
        self._exporter.close()


def started(corpus: str, port: int | None) -> subprocess.Popen[str]:
    """Start the process of a loop, which waits for a line before every step."""
    command = [sys.executable, "-m", "benchmarks.exporter", "--only", corpus]
    told = environment() | ({"TRAINWAY_METRICS": f"127.0.0.1:{port}"} if port else {})
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=told)


def scraped_step(loop: subprocess.Popen[str], port: int, scraped: list[int]) -> tuple[float, float]:
    """Let a loop run a step, scrape it meanwhile, and return its seconds. Add the bytes of the answer to `scraped`."""
    scraping = threading.Thread(target=lambda: scraped.append(scrape(port)))
    scraping.start()
    seconds = step(loop)
    scraping.join()
    return seconds


def scrape(port: int) -> int:
    """Return the bytes of an answer, or 0 if nothing listens yet."""
    time.sleep(0.02)  # the step has begun
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return len(answer.read())
    except OSError:
        return 0


if __name__ == "__main__":
    main()
