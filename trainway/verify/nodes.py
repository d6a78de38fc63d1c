"""Proving nodes: the probe is submitted, what it writes is read until it has ended, and the checks judge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainway.explain import evidence_of_handle, explain
from trainway.launch.submission import submit
from trainway.launch.target import Handle, Phase
from trainway.launch.targets import target_named
from trainway.spec.catalogue import Catalogue
from trainway.verify.checks import run_checks
from trainway.verify.facts import Expected, facts_of_log
from trainway.verify.kubernetes import allocatable_of_group, nodes_by_hostname
from trainway.verify.probe_request import ProbeRequest
from trainway.verify.results import Result, Status


def verify_nodes(
    request: ProbeRequest,
    catalogue: Catalogue,
    target: str,
    options: Mapping[str, Any],
    versions: Mapping[str, str] | None = None,
) -> tuple[Result, ...]:
    """What the checks say of the nodes that the probe was given; returns when it has ended on them.

    `options` are those of `submit` (trainway/launch/submission.py), `versions` those that the image ought to have. A
    probe that is not waited for is stopped. Raises UsageError where it is refused or the target cannot be asked.
    """
    handle = submit(request, catalogue, target, options, None)
    where = target_named(target)
    try:
        text = "\n".join(where.logs(handle, follow=True))
    except BaseException:
        where.stop(handle)
        raise
    allocation = request.allocation
    expected = Expected(allocation.nodes, catalogue[allocation.group.instance_type], versions or {})
    on_kubernetes = target == "kubernetes"
    allocatable = allocatable_of_group(request, handle) if on_kubernetes else {}
    names = nodes_by_hostname(handle) if on_kubernetes else {}
    results = run_checks(facts_of_log(text, expected, allocatable))
    if where.state(handle).phase is not Phase.SUCCEEDED:
        results = (*results, _why_it_failed(target, handle))
    return tuple(replace(each, node=names.get(each.node, each.node)) if each.node else each for each in results)


def _why_it_failed(target: str, handle: Handle) -> Result:
    findings = explain(evidence_of_handle(target, handle))
    said = f"{findings[0].cause}; {findings[0].remedy}" if findings else "it did not end well, and nothing says why"
    return Result("probe", findings[0].quote.node if findings else None, Status.FAILED, said)
