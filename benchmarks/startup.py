"""Measure the commands that people and editors call again and again: check, plan, rules, schema, and init.

    python -m benchmarks.startup

Each figure is in processor seconds of one process, from the start of Python to its end. The commands take turns (see
turns.py). A command runs once before it is measured, so that Python has compiled the modules.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.record import arguments, record
from benchmarks.turns import Spread, take_turns

ROOT = Path(__file__).parents[1]
PLATFORM = ROOT / "platform.yaml"
ADMIN = "arn:aws:iam::111122223333:role/Admin"
COMMANDS = {
    "check": ("check", str(PLATFORM)),
    "plan": ("plan", str(PLATFORM)),
    "rules": ("rules",),
    "schema": ("schema",),
    # In an empty directory, without questions.
    "init": (
        *("init", "--type", "p5.48xlarge", "--count", "2", "--orchestrator", "eks", "--region", "us-west-2"),
        *("--capacity", "on-demand", "--admin", ADMIN, "--name", "atlas"),
    ),
}
ROUNDS = 11


def main() -> None:
    """Measure, and write the result."""
    chosen = arguments("startup", __doc__).parse_args()
    programs: dict[str, Callable[[], float]] = {name: partial(seconds, words) for name, words in COMMANDS.items()}
    for program in programs.values():
        program()
    turns = take_turns(programs, ROUNDS)
    figures = {name: Spread.of(each).document() for name, each in turns.items()}
    record(figures, ["pydantic", "typer", "pyyaml"], chosen.out)


def seconds(words: tuple[str, ...]) -> float:
    """Run a command in an empty directory, and return its processor seconds. Raises CalledProcessError if it fails."""
    # Without compiled modules, each start compiles Trainway anew.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as directory:
        before = of_ended_children()
        command = [sys.executable, "-m", "trainway.start", *words]
        subprocess.run(
            command,
            cwd=directory,
            env=environment | {"PYTHONPATH": str(ROOT)},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return of_ended_children() - before


def of_ended_children() -> float:
    """Return the processor seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
