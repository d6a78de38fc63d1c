"""Measure rates on four hosts with links of their own, and find the host whose link is shaped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.synthesis import ROOT
from trainway.extensions.find_slow.rates import Rates, rates_of_log
from trainway.extensions.find_slow.slow_nodes import Slow, Suspect, find_slow

MBIT, SHAPED_MBIT = 25, 8
# Small sizes, so that the links and not the processors of this machine limit the rates.
SETTINGS = {"MAX_BYTES": 2**18, "GEMM": 64, "MEMORY_BYTES": 2**20, "MILLISECONDS": 200, "REPEATS": 5}


def missing() -> str | None:
    """Return why no hosts can be created here, or None if they can. Continuous integration skips nothing."""
    if "CI" in os.environ:
        return None
    if os.geteuid():
        return "only root may make namespaces"
    absent = [program for program in ("ip", "nsenter", "tc", "unshare") if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")


def measured(*mbits: int) -> Rates:
    """Return the rates of hosts with links of so many Mbit/s."""
    environment = {f"TRAINWAY_RATES_{name}": str(value) for name, value in SETTINGS.items()}
    command = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", "tests.verify.hosts"]
    ran = subprocess.run(
        [*command, *map(str, mbits)],
        env=os.environ | environment | {"OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    rates = rates_of_log(ran.stdout.splitlines())
    assert rates.complete
    assert rates.nodes == tuple(f"n{number}" for number in range(len(mbits)))
    return rates


def slow_links(rates: Rates) -> list[Slow]:
    """Return what is slow among the rates between hosts. Other programs of this machine can slow down a host's own."""
    return [each for each in find_slow(rates) if each.measure.split()[0] in ("pair", "half")]


def test_the_host_with_the_shaped_link_is_named_and_no_other() -> None:
    rates = measured(MBIT, MBIT, SHAPED_MBIT, MBIT)
    (slow,) = slow_links(rates)
    assert (slow.suspect, slow.nodes) == (Suspect.NODE, ("n2",))
    # The link limits the rate: in each direction, an all-reduce of two ranks sends the reduced bytes.
    assert 0 < slow.value < 1.3 * SHAPED_MBIT / 8e3
    # Each of the four hosts was in a pair with each of the three others.
    assert len(rates.of("pair all-reduce")) == 6
    assert [len(rates.of(f"cluster {each}")) for each in ("all-reduce", "all-gather", "all-to-all")] == [1, 1, 1]


# test_slow_nodes.py shows the same for many rates that differ within the tolerance.
@pytest.mark.exhaustive
def test_hosts_with_equal_links_are_not_named() -> None:
    assert slow_links(measured(MBIT, MBIT, MBIT, MBIT)) == []
