"""A run as its objects need it: what several of them have in common, computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trainway.launch.kubernetes.node_program import node_files, node_program, under_launcher
from trainway.launch.kubernetes.options import KubernetesOptions, check_options, keep_seconds, kind_of
from trainway.launch.kubernetes.placement import Placement, placement_of
from trainway.launch.kubernetes.process import DIRECTORY
from trainway.launch.kubernetes.who_shares import JobShare, share_of
from trainway.launch.program.locations import check_locations, check_team
from trainway.launch.program.lost_nodes import NodeCounts, node_counts
from trainway.launch.program.request import OnNodes, Request
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.instance import Instance


@dataclass(frozen=True)
class KubernetesRun:
    """A request, and the values that all its Kubernetes objects share. Its program suits the object's kind.

    `kind` of the `options` is set. `command` is what every node runs in the `environment` of the job, and `files` are
    those of its pods, by their names. `keep_seconds` is how long the object of the finished run stays.
    """

    request: Request
    options: KubernetesOptions
    instance: Instance
    share: JobShare
    placement: Placement
    nodes: NodeCounts
    on_nodes: OnNodes
    command: Sequence[str]
    files: Mapping[str, str]
    environment: Mapping[str, str]
    keep_seconds: int


def kubernetes_run(request: Request, catalogue: Catalogue, options: KubernetesOptions) -> KubernetesRun:
    """Return a run as its objects need it.

    Raises UsageError for what the platform does not have, or the kind or the job cannot do.
    """
    check_team(request.program, request.hand_off)
    check_locations(request.program, request.hand_off)
    share = share_of(request, options.priority)
    kind = kind_of(request, options, share.sharing)
    options = replace(options, kind=kind)
    check_options(request, options, share.sharing)
    nodes = node_counts(request, options)
    request = under_launcher(request, kind, nodes)
    on_nodes = request.on_nodes(DIRECTORY)
    return KubernetesRun(
        request=request,
        options=options,
        instance=catalogue[request.allocation.group.instance_type],
        share=share,
        placement=placement_of(request, options, catalogue, share.sharing),
        nodes=nodes,
        on_nodes=on_nodes,
        command=node_program(request, on_nodes, kind, nodes),
        files={**on_nodes.files, **node_files(request, on_nodes, kind, nodes)},
        environment=request.environment(on_nodes),
        keep_seconds=keep_seconds(request),
    )
