"""Search nodes for slow ones: submit the program that measures rates, read its output, and compare the rates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from trainway.extensions.find_slow.rates import Rates, in_digits, rates_of_log, unit_of
from trainway.extensions.find_slow.slow_nodes import Slow, Suspect, find_slow
from trainway.launch.program.request import Request
from trainway.launch.target.known import AnyTarget
from trainway.launch.target.protocol import Phase
from trainway.spec.facts.catalogue import Catalogue
from trainway.verify.all_reduce import Sweep
from trainway.verify.checks import all_reduce_is_fast
from trainway.verify.facts import Expected, Facts
from trainway.verify.nodes import run_to_its_end, why_it_failed
from trainway.verify.probe_job import MOST_BYTES, rates_environment
from trainway.verify.results import Result, Status, exit_status

FOUND_SLOW = 4
"""Exit status if a slow node or link was found."""
FEWEST_NODES = 3
"""Smallest number of nodes with which the slow node of a slow pair can be identified."""


@dataclass(frozen=True)
class SlowSearch:
    """The measured rates, the slow nodes and links, and the results of the checks."""

    rates: Rates
    slow: tuple[Slow, ...]
    results: tuple[Result, ...]

    @property
    def exit_status(self) -> int:
        """FOUND_SLOW if a node or link is slow, 1 if the test failed in another way, otherwise 0."""
        return FOUND_SLOW if self.slow else exit_status(self.results)


def rates_request(request: Request, *, max_bytes: int = MOST_BYTES) -> Request:
    """Return the program that measures rates on the nodes of a request for it."""
    return replace(request, program=replace(request.program, environment=rates_environment(max_bytes)))


def search_slow_nodes(request: Request, catalogue: Catalogue, target: AnyTarget, options: Any) -> SlowSearch:
    """Run the program of a request, and return the rates, and the slow nodes and links.

    `options` are the target's own. A program that is not waited for is stopped. Raises UsageError if it is refused or
    the target cannot be reached.
    """
    handle, text = run_to_its_end(request, catalogue, target, options)
    rates = rates_of_log(text.splitlines(), target.known_nodes(request, handle).names)
    allocation = request.allocation
    search = judge_rates(rates, Expected(allocation.nodes, catalogue[allocation.group.instance_type]))
    if rates.complete and target.state(handle).phase is Phase.SUCCEEDED:
        return search
    return replace(search, results=(*search.results, why_it_failed(target, handle)))


def judge_rates(rates: Rates, expected: Expected) -> SlowSearch:
    """Return the slow nodes and links, and the results of each measure and of the all-reduce over all nodes."""
    slow = find_slow(rates)
    return SlowSearch(rates, slow, tuple(_results(rates, slow, expected)))


def _results(rates: Rates, slow: tuple[Slow, ...], expected: Expected) -> Iterator[Result]:
    answered = len(rates.nodes)
    enough = Status.OK if answered >= expected.nodes else Status.FAILED
    yield Result("nodes", None, enough, f"{answered} of {expected.nodes} nodes answered")
    for measure in rates.measures("gemm", "memory", "node", "pair", "half"):
        found = [each for each in slow if each.measure == measure]
        yield from (_of_suspect(each) for each in found)
        if not found:
            yield _of_measure(rates, measure)
    for each in rates.of("cluster all-reduce"):
        yield from all_reduce_is_fast(Facts(expected, sweep=Sweep({rates.bytes: each.value})))


def _of_suspect(slow: Slow) -> Result:
    if slow.suspect is Suspect.NODE:
        return Result(slow.measure, slow.nodes[0], Status.FAILED, slow.sentence)
    what = "the link between" if slow.suspect is Suspect.LINK else "together"
    return Result(slow.measure, None, Status.FAILED, f"{what} {' and '.join(slow.nodes)}: {slow.sentence}")


def _of_measure(rates: Rates, measure: str) -> Result:
    values = [each.value for each in rates.of(measure)]
    if measure.startswith("pair") and len(rates.nodes) < FEWEST_NODES:
        words = f"{in_digits(values[0])} {unit_of(measure)} between {' and '.join(rates.nodes)}"
        why = "which do not show which of them is slow if one is"
        return Result(measure, None, Status.SKIPPED, f"{words}, {why}: test {FEWEST_NODES} nodes or more")
    least, middle, most = map(in_digits, (min(values), median(values), max(values)))
    return Result(measure, None, Status.OK, f"{least} to {most} {unit_of(measure)}, median {middle}")
