"""Plant every fault of the table several times in a row, each time at other random moments.

python -m tests.faults [--count 3] [--seed N]
"""

import argparse
import os
import random
import sys

import pytest

from tests.faults.moments import SEED
from tests.faults.table import FAULTS
from tests.synthesis import ROOT


def main() -> int:
    """Run the tests of all faults until one fails. Return the exit status of pytest."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--count", type=int, default=3, help="number of consecutive repetitions. Default: 3")
    parser.add_argument("--seed", type=int, help="the seed of the first repetition. Default: a random one")
    chosen = parser.parse_args()
    first = random.randrange(10**6) if chosen.seed is None else chosen.seed
    tests = [str(ROOT / "tests" / fault.test) for fault in FAULTS]
    for seed in range(first, first + chosen.count):
        os.environ[SEED] = str(seed)
        print(f"{SEED}={seed}", flush=True)
        if status := pytest.main(["-q", "-x", *tests]):
            return int(status)
    return 0


if __name__ == "__main__":
    sys.exit(main())
