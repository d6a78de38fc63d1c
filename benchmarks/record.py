"""Record a benchmark: its figures, and everything needed to repeat it."""

import argparse
import json
import os
import platform
import shlex
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any


def arguments(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of `python -m benchmarks.<module>`. Its option `--out` has the file for `record`.

    After this call, SIGTERM raises KeyboardInterrupt, so that the benchmark ends the processes that it started.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{module}", description=description)
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="also write the result into this file")
    return parser


def record(figures: dict[str, Any], libraries: Sequence[str], out: Path | None) -> None:
    """Print the figures with machine, versions, command, and date, and write them to `out`."""
    print(write(figures, libraries, out))


def write(figures: dict[str, Any], libraries: Sequence[str], out: Path | None, module: str | None = None) -> str:
    """Write the figures with machine, versions, command, and date to `out`, and return the text.

    A benchmark that can be ended early calls this after each part. The file is always whole. `module` is what the
    command runs, if it is no benchmark.
    """
    whole = {
        "command": command(sys.argv, module),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "processors": os.cpu_count(),
        # Includes other work if the machine is shared.
        "load_average": round(os.getloadavg()[0], 1),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in libraries}},
        "figures": figures,
    }
    text = json.dumps(whole, indent=2)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.with_name(f"{out.name}.part")
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(out)
    return text


def command(words: Sequence[str], module: str | None = None) -> str:
    """Return the command that repeats a benchmark, or runs another module, from the words of `sys.argv`.

    The command has no `--out` or `--record`, because the path of the result is one of this machine.
    """
    program, *options = words
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out", "--record")
    _, kept = parser.parse_known_args(options)
    return shlex.join(["python", "-m", module or f"benchmarks.{Path(program).stem}", *kept])


def processor() -> str:
    """Return the name of this machine's processor."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text(encoding="utf-8").splitlines() if described.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
