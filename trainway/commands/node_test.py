"""The job of `trainway verify` that tests nodes: prepare it, run it to its end, and describe its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainway.commands.verify_options import VerifyOptions

if TYPE_CHECKING:
    from trainway.extensions.find_slow.show_rates import ShownSearch
    from trainway.launch.program.request import Request
    from trainway.launch.target.known import AnyTarget
    from trainway.spec.platform import Platform
    from trainway.verify import Result


@dataclass(frozen=True)
class NodeTest:
    """A job that tests nodes of one node group: the probe, or the program that measures rates.

    `options` are those of the target.
    """

    platform: Platform
    request: Request
    target: AnyTarget
    options: Any


def prepare_test(group: str | None, options: VerifyOptions) -> NodeTest:
    """Return the job that tests nodes of a node group, by default the first with accelerators.

    Raises UsageError if the platform cannot run it, or cannot repair the nodes that it finds at fault.
    """
    from trainway.extensions.find_slow.slow_search import rates_request
    from trainway.launch.registry.platform_file import platform_file_named
    from trainway.launch.starting.prepare import Launch, allocated_requests
    from trainway.launch.target.known import own_target
    from trainway.launch.target.options import options_from
    from trainway.spec.loader import load_platform
    from trainway.verify import probe_point, probe_request
    from trainway.verify.probe_job import rates_command
    from trainway.verify.repairs import require_hyperpod

    file = platform_file_named(options.platform_file)
    platform = load_platform(file)
    if options.repairs.repair:
        require_hyperpod(platform)
    point = probe_point(options.nodes, team=options.team, command=rates_command() if options.find_slow else None)
    [request] = allocated_requests(Launch([point], file, group=group, image=options.image, loaded=platform))
    # A repair names the node group of the nodes, so that only one group can be tested.
    # The test measures TCP, too, and says why the nodes use it.
    request = replace(request, allocation=replace(request.allocation, others=()), network=None)
    most_bytes = options.gib * 2**30
    if options.find_slow:
        request = rates_request(request, max_bytes=most_bytes)
    else:
        request = probe_request(request, max_bytes=most_bytes, dcgm_level=options.dcgm_level)
    target = own_target(platform)
    said = {"environment": options.environment, "user": options.user}
    return NodeTest(platform, request, target, options_from(target.options, said, target.name))


def rendered_test(test: NodeTest) -> str:
    """Return what would be submitted."""
    from trainway.spec.facts.catalogue import load_catalogue

    return test.target.render(test.request, load_catalogue(), test.options)


def run_test(test: NodeTest) -> tuple[Sequence[Result], ShownSearch]:
    """Submit the job, wait for its end, and return the results of the checks, with their description."""
    from trainway.extensions.find_slow.show_rates import as_shown
    from trainway.extensions.find_slow.slow_search import search_slow_nodes
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.loader import load_versions
    from trainway.verify import ProbeRequest, expected_versions, verify_nodes

    request, platform, catalogue = test.request, test.platform, load_catalogue()
    if not isinstance(request, ProbeRequest):
        search = search_slow_nodes(request, catalogue, test.target, test.options)
        return search.results, as_shown(search, platform, request.allocation.group.name)
    name = request.image_name
    # The file can have changed since the deploy.
    known = platform.of_image(name) if name in platform.image_names else None
    versions = expected_versions(known, catalogue, load_versions()) if known else {}
    results = verify_nodes(request, catalogue, test.target, test.options, versions)
    return results, shown_results(results)


def shown_results(results: Sequence[Result]) -> ShownSearch:
    """Return the description of results: a table for people, and a document for programs."""
    from trainway.extensions.find_slow.show_rates import ShownSearch
    from trainway.verify import as_document, as_table

    return ShownSearch(as_table(results), "", as_document(results))
