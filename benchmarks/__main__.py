"""Run the benchmarks that this machine supports, and print what they say of each claim.

    python -m benchmarks

Each one has a time limit, which together are 15 minutes, and 10 more on a machine with a GPU. A benchmark that fails or
reaches its limit keeps its earlier result, and the others run. The exit status is 1 if there was one. A claim that does
not hold is no failure of its benchmark.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys

from benchmarks import claims

LIMITS = {
    "overhead": 210,
    "read_rate": 165,
    "resume": 90,
    "checkpoint_stall": 255,
    "stop_agreement": 60,
    "planning": 75,
    "startup": 45,
}
"""Seconds, together a quarter of an hour. A benchmark that exceeds its own ends, and its earlier result stays."""
GPU_LIMITS = {"single_gpu": 600}
SECONDS_TO_END = 40
"""torchrun gives its workers 30: PContext.close in torch/distributed/elastic/multiprocessing/api.py of PyTorch 2.13."""


def main() -> int:
    """Run the benchmarks, rewrite the table of README.md, and return the exit status."""
    as_written = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser("python -m benchmarks", description=__doc__, formatter_class=as_written).parse_args()
    # A shell ignores Ctrl-C in what it runs in the background, and each process inherits that. `end` relies on it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    limits = LIMITS | (GPU_LIMITS if shutil.which("nvidia-smi") else {})
    failed = {name: why for name, limit in limits.items() if (why := run(name, limit))}
    claims.main()
    print(f"\n{claims.summary()}")
    for name, why in failed.items():
        print(f"benchmarks.{name} {why}. Its earlier result stays.", file=sys.stderr)
    return 1 if failed else 0


def run(name: str, limit: float) -> str:
    """Run a benchmark for at most `limit` seconds. Return why there is no new result, or nothing."""
    print(f"benchmarks.{name}, at most {limit:.0f} seconds", flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", "--out", str(claims.HERE / "results" / f"{name}.json")]
    # In a group of its own, because a benchmark starts processes that would outlive it.
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, process_group=0)
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        return f"took longer than {limit:.0f} seconds"
    finally:
        end(process)
    return f"ended with status {status}" if status else ""


def end(process: subprocess.Popen[bytes]) -> None:
    """End a benchmark as Ctrl-C does, so that it deletes its files and torchrun ends its workers."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
