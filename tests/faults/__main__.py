"""Plant every fault of the table several times in a row, each time at other random moments.

python -m tests.faults [--count 3] [--seed N] [--only WORD] [--record tests/faults/results.json]

`python -m tests.faults.table` then writes the table of docs/recovery.md.
"""

import argparse
import os
import random
import sys
from pathlib import Path

import pytest

from benchmarks.record import write
from tests.faults.moments import SEED
from tests.faults.recorder import Recorder
from tests.faults.table import FAULTS
from tests.synthesis import ROOT


def main() -> int:
    """Run the tests of all faults until one fails, or all of them for a record. Return the exit status of pytest."""
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__, formatter_class=as_written)
    parser.add_argument("--count", type=int, default=3, help="number of consecutive repetitions. Default: 3")
    parser.add_argument("--seed", type=int, help="the seed of the first repetition. Default: a random one")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="plant the faults that have this word in their names"
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write the ends and the pauses of the runs into this file after each repetition, also if tests fail",
    )
    chosen = parser.parse_args()
    first = random.randrange(10**6) if chosen.seed is None else chosen.seed
    faults = [fault for fault in FAULTS if chosen.only.lower() in fault.name.lower()]
    if not faults:
        parser.error(f"--only {chosen.only}: no fault has this in its name. The names are in docs/recovery.md")
    tests = [str(ROOT / "tests" / fault.test) for fault in faults]
    recorder, worst = Recorder(faults), 0
    for seed in range(first, first + chosen.count):
        os.environ[SEED] = str(seed)
        print(f"{SEED}={seed}", flush=True)
        status = int(pytest.main(["-q", *([] if chosen.record else ["-x"]), *tests], plugins=[recorder]))
        if chosen.record:
            write(recorder.figures(), ["torch"], chosen.record, module="tests.faults")
        worst = max(worst, status)
        if status and not chosen.record:
            return status
    return worst


if __name__ == "__main__":
    sys.exit(main())
