"""Format the rates of nodes and the advice about slow nodes as text, and as a JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median, median_high
from typing import Any

from trainway.extensions.find_slow.rates import Rates, in_digits, unit_of
from trainway.extensions.find_slow.slow_nodes import Suspect
from trainway.extensions.find_slow.slow_search import SlowSearch
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.verify.show import as_document, as_table

MOST_LINES = 16
"""Largest number of nodes for which the table has a line per node. Otherwise, only slow nodes have a line."""
_OF_NODES = ("gemm", "memory", "node", "pair")


@dataclass(frozen=True)
class ShownSearch:
    """The output of a search: the tables, the advice about slow nodes, and the document for JSON."""

    text: str
    advice: str
    document: dict[str, Any]


def as_shown(search: SlowSearch, platform: Platform, group: str) -> ShownSearch:
    """Return the output of a search among the nodes of a node group."""
    tables = [as_rates_table(search)] if search.rates.rates else []
    text = "\n\n".join([*tables, as_table(search.results)])
    return ShownSearch(text, advice(search, platform, group), as_search_document(search))


def as_rates_table(search: SlowSearch) -> str:
    """Return a table of the rates of nodes, and their medians. The rate of a node's pairs is their median."""
    rates = search.rates
    measures = rates.measures(*_OF_NODES)
    by_measure = {each: _by_node(rates, each) for each in measures}
    slow = {node for each in search.slow for node in each.nodes}
    shown = [each for each in rates.nodes if len(rates.nodes) <= MOST_LINES or each in slow]
    rows = [["node", *(f"{each} {unit_of(each)}" for each in measures)]]
    for node in shown:
        rows.append([node, *(_cell(by_measure[each], node) for each in measures)])
    rows.append(["median", *(in_digits(median(by_measure[each].values())) for each in measures)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [f"{row[0]:{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )


def advice(search: SlowSearch, platform: Platform, group: str) -> str:
    """Return how to keep jobs off the slow nodes, and how to repair or replace them. Empty if no node is slow."""
    nodes = list(dict.fromkeys(each.nodes[0] for each in search.slow if each.suspect is Suspect.NODE))
    if not nodes:
        return ""
    named = " ".join(nodes)
    if platform.orchestrator is Orchestrator.HYPERPOD_SLURM:
        drain = f'scontrol update NodeName={",".join(nodes)} State=DRAIN Reason="slow in trainway verify"'
    else:
        drain = f"kubectl cordon {named}"
    lines = ["To keep new jobs off:", f"  {drain}"]
    if platform.orchestrator.is_hyperpod:
        again = f"trainway verify {group} --nodes {len(search.rates.nodes)} --find-slow --repair"
        lines += ["To test the hardware, or to replace the node:", f"  {again}", f"  {again} --repair-with replace"]
    else:
        lines += [
            "To replace the node:",
            f"  kubectl drain {named} --ignore-daemonsets --delete-emptydir-data",
            "  aws ec2 terminate-instances --instance-ids ID",
        ]
    return "\n".join(lines)


def as_search_document(search: SlowSearch) -> dict[str, Any]:
    """Return the results, the slow nodes and links, the rates, and the exit status, as values for JSON."""
    return {
        **as_document(search.results),
        "exit_status": search.exit_status,
        "slow": [
            {
                "suspect": each.suspect.value,
                "measure": each.measure,
                "nodes": list(each.nodes),
                "value": each.value,
                "median": each.median,
                "share": round(each.share, 3),
                "unit": each.unit,
            }
            for each in search.slow
        ],
        "rates": [
            {"measure": each.measure, "nodes": list(each.nodes), "value": each.value, "unit": each.unit}
            for each in search.rates.rates
        ],
    }


def _by_node(rates: Rates, measure: str) -> Mapping[str, float]:
    values: dict[str, list[float]] = {}
    for rate in rates.of(measure):
        for node in rate.nodes:
            values.setdefault(node, []).append(rate.value)
    return {node: median_high(some) for node, some in values.items()}


def _cell(values: Mapping[str, float], node: str) -> str:
    return in_digits(values[node]) if node in values else ""
