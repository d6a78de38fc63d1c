"""Mutated platform and job files through the command line: each is refused with a remedy, or works to the end.

    python -m tests.mutants --count 10000 --seed 1

prints what became of the files, and every file that ended in a traceback, let a command hang, or was accepted by
`trainway check` and failed later. The exit status is 1 if there is such a file.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn
from unittest import mock

from tests.known_day import ON_KNOWN_DAY
from trainway import cli

ROOT = Path(__file__).parents[1]
PLATFORMS = (ROOT / "platform.yaml", *sorted((ROOT / "examples").glob("*.yaml")))
JOBS = tuple(sorted((ROOT / "examples/jobs").rglob("job.yaml"))) + tuple(
    sorted((ROOT / "examples/jobs").glob("*.yaml"))
)
# Ends a command that hangs. A command takes about a second.
HANG_SECONDS = 300

ODD = (
    *("", "~", "no", "010", "1:30", "1_000", "0x1F", "0o17", "1e-4", "-1", "0", "1e999", ".inf", ".nan", "true"),
    *("9" * 30, "9" * 5000, "[]", "{}", "[[]]", "{a: b}", "[a, b]", "&a x", "*a", "!!bool maybe", "!x y", "<<", "? a"),
    *(
        "'",
        '"',
        '"\\0"',
        "'a b'",
        "a: b",
        "- a",
        "#",
        "|",
        ">",
        "%",
        "@",
        "`",
        "é",
        "\u202e",
        "../x",
        "/etc/passwd",
        "$(id)",
    ),
    *(
        "p5.48xlarge",
        "us-east-1",
        "usw2-az1",
        "10.0.0.0/8",
        "::/0",
        "eks",
        "hyperpod-slurm",
        "spot",
        "arn:aws:iam::1:x",
    ),
)
SCALAR = re.compile(r"(?<=[:\[,{-] )[^\s,{}\[\]#][^,{}\[\]#\n]*")
KEY = re.compile(r"[\w-]+(?=:)")


@dataclass(frozen=True)
class Wrong:
    """A file with which the command line did what it may not do."""

    what: str
    text: str
    said: str


@cache
def keys() -> tuple[str, ...]:
    """Return every key of every example."""
    return tuple(sorted({key for file in (*PLATFORMS, *JOBS) for key in KEY.findall(file.read_text("utf-8"))}))


def mutated(text: str, other: str, chance: random.Random) -> str:
    """Return a text after one to four changes, with parts of another file among them."""
    for _ in range(chance.choice((1, 1, 1, 1, 1, 2, 3))):
        text = chance.choice(CHANGES)(text, other, chance)
    return text


def change_scalar(text: str, other: str, chance: random.Random) -> str:
    found = list(SCALAR.finditer(text))
    if not found:
        return text
    place = chance.choice(found)
    theirs = SCALAR.findall(other) or [""]
    new = chance.choice((chance.choice(ODD), chance.choice(theirs)))
    return text[: place.start()] + new + text[place.end() :]


def change_key(text: str, _: str, chance: random.Random) -> str:
    found = list(KEY.finditer(text))
    if not found:
        return text
    place = chance.choice(found)
    return text[: place.start()] + chance.choice(keys()) + text[place.end() :]


def add_key(text: str, _: str, chance: random.Random) -> str:
    lines = text.splitlines()
    at = chance.randrange(len(lines) + 1)
    near = lines[min(at, len(lines) - 1)] if lines else ""
    indentation = near[: len(near) - len(near.lstrip())]
    return "\n".join([*lines[:at], f"{indentation}{chance.choice(keys())}: {chance.choice(ODD)}", *lines[at:], ""])


def change_lines(text: str, other: str, chance: random.Random) -> str:
    lines = text.splitlines()
    if not lines:
        return text
    at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(to, lines[at])
        case 2:
            lines[at], lines[to] = lines[to], lines[at]
        case 3:
            lines[at] = f"  {lines[at]}"
        case 4:
            lines[at] = lines[at].removeprefix("  ")
        case _:
            lines.insert(at, chance.choice(other.splitlines() or [""]))
    return "\n".join([*lines, ""])


def change_character(text: str, _: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    new = chance.choice(("", *"\t\n :-[]{},'\"&*!|>%@#?\\0é\x00\ufeff"))
    return text[:at] + new + text[at + chance.randrange(2) :]


CHANGES: tuple[Callable[[str, str, random.Random], str], ...] = (
    *(change_scalar, change_scalar, change_scalar, change_key, add_key, add_key, change_lines, change_character),
)


class HangingCommandError(BaseException):
    """A command does not end. It is no Exception, so that the command does not handle it."""


@contextmanager
def ended_when_it_hangs() -> Iterator[None]:
    """Raise HangingCommandError in the block after `HANG_SECONDS`. Requires the main thread."""

    def end(*_: object) -> NoReturn:
        raise HangingCommandError(f"it has not ended after {HANG_SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    # pytest-timeout has the same timer for the whole test.
    remaining, _ = signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, remaining)


def command(*words: str) -> tuple[int | str, str]:
    """Run the command line in this process. Return its exit status, or what else ended it, and what it said."""
    said = io.StringIO()
    with mock.patch.object(sys, "argv", ["trainway", *words]), redirect_stdout(said), redirect_stderr(said):
        try:
            with ended_when_it_hangs():
                cli.main()
            status: int | str = 0
        except SystemExit as exit_:
            status = exit_.code if isinstance(exit_.code, int) else 0 if exit_.code is None else str(exit_.code)
        except (Exception, HangingCommandError):
            status = traceback.format_exc()
    return status, said.getvalue()


def tried(file: Path, commands: Sequence[Sequence[str]]) -> tuple[str, Wrong | None]:
    """Return whether a file was refused or accepted, and what was wrong with that. `commands` follow a good check."""
    text, checked = file.read_text("utf-8"), False
    for words in (("check", *ON_KNOWN_DAY) if "platform" in file.name else ("check",), *commands):
        status, said = command(words[0], str(file), *words[1:])
        if not isinstance(status, int):
            return "traceback", Wrong(f"trainway {words[0]} ended in a traceback", text, status)
        if status == 2 and "fix:" not in said:
            return "unexplained", Wrong(f"trainway {words[0]} refused it without a remedy", text, said)
        if status == 2 and not checked:
            return "refused", None
        # A job with a location on a platform is launched where the platform is.
        expected = words[0] == "launch" or "has no Kubernetes" in said
        if status and not (status == 2 and expected):
            return "failed", Wrong(f"it passed the check, and trainway {words[0]} ended with {status}", text, said)
        checked = True
    return "accepted", None


@contextmanager
def without_a_cloud(directory: Path) -> Iterator[None]:
    """Work in an empty directory, and with no credentials."""
    before = Path.cwd()
    os.chdir(directory)
    with mock.patch.dict(os.environ, {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}):
        try:
            yield
        finally:
            os.chdir(before)


def synthesized(file: Path, out: Path) -> Wrong | None:
    """Return what was wrong with the synthesis of an accepted platform's templates."""
    from tests.synthesis import make_app

    try:
        make_app(file, out).synth()
    except Exception:
        return Wrong(
            "it passed the check, and the CDK did not synthesize it", file.read_text("utf-8"), traceback.format_exc()
        )
    return None


def run(count: int, seed: int, most_synthesized: int = 0) -> tuple[Counter[str], list[Wrong]]:
    """Try so many files, half of them platforms. Return what became of them, and all that was wrong.

    Of the accepted platforms, up to `most_synthesized` are synthesized as well.
    """
    chance, became, wrong = random.Random(seed), Counter[str](), list[Wrong]()
    with tempfile.TemporaryDirectory() as directory, without_a_cloud(Path(directory)):
        after = {
            "platform": (("plan",), ("manifests", "--out", "manifests")),
            "job": (("launch", "--target", "local", "--processes", "1", "--dry-run"),),
        }
        for number in range(count):
            kind, files = (("platform", PLATFORMS), ("job", JOBS))[number % 2]
            original, other = chance.choice(files), chance.choice(files)
            file = Path(directory) / f"mutant-{kind}.yaml"
            text = mutated(original.read_text("utf-8"), other.read_text("utf-8"), chance)
            file.write_text(text, encoding="utf-8", newline="")
            # A launch of a job with packages asks an index which of them fit together.
            outcome, problem = tried(file, () if kind == "job" and "packages" in text else after[kind])
            became[f"{kind} {outcome}"] += 1
            if kind == "platform" and outcome == "accepted" and became["platform synthesized"] < most_synthesized:
                became["platform synthesized"] += 1
                problem = synthesized(file, Path(directory) / f"out-{number}")
            if problem is not None:
                wrong.append(problem)
    return became, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Try mutated platform and job files.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--synth", type=int, default=0, help="how many accepted platforms are synthesized")
    asked = parser.parse_args()
    became, wrong = run(asked.count, asked.seed, asked.synth)
    for problem in wrong:
        print(f"== {problem.what}\n{problem.text}\n-- it said\n{problem.said}\n")
    for outcome, number in sorted(became.items()):
        print(f"{number:6} {outcome}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
