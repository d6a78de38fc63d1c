"""Verify nodes: submit the probe, read its output until it ends, and run the checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainway.explain import explain
from trainway.launch.program.request import Request
from trainway.launch.target.known import AnyTarget
from trainway.launch.target.protocol import Handle, Phase
from trainway.spec.facts.catalogue import Catalogue
from trainway.verify.checks import run_checks
from trainway.verify.facts import Expected, facts_of_log
from trainway.verify.probe_request import ProbeRequest
from trainway.verify.results import Result, Status


def verify_nodes(
    request: ProbeRequest,
    catalogue: Catalogue,
    target: AnyTarget,
    options: Any,
    versions: Mapping[str, str] | None = None,
) -> tuple[Result, ...]:
    """Return the results of the checks for the nodes of the probe, after it has ended.

    `options` are the target's own. `versions` are the expected versions of the image. A probe that is not waited for is
    stopped. Raises UsageError if it is refused or the target cannot be reached.
    """
    handle, text = run_to_its_end(request, catalogue, target, options)
    allocation = request.allocation
    expected = Expected(allocation.nodes, catalogue[allocation.group.instance_type], versions or {})
    known = target.known_nodes(request, handle)
    results = run_checks(facts_of_log(text, expected, known.allocatable))
    if target.state(handle).phase is not Phase.SUCCEEDED:
        results = (*results, why_it_failed(target, handle))
    return tuple(replace(each, node=known.names.get(each.node, each.node)) if each.node else each for each in results)


def run_to_its_end(request: Request, catalogue: Catalogue, target: AnyTarget, options: Any) -> tuple[Handle, str]:
    """Submit a request, and return its handle and output after its end. Stop the job if this process is interrupted."""
    handle = target.submit(request, catalogue, options)
    try:
        return handle, "\n".join(target.logs(handle, follow=True))
    except BaseException:
        target.stop(handle)
        raise


def why_it_failed(target: AnyTarget, handle: Handle) -> Result:
    """Return the failure of a run as the result of the check `probe`."""
    findings = explain(target.evidence(handle))
    said = f"{findings[0].cause}; {findings[0].remedy}" if findings else "it failed for an unknown reason"
    return Result("probe", findings[0].quote.node if findings else None, Status.FAILED, said)
