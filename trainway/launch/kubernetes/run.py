"""A run as its objects need it: what several of them have in common, computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trainway.launch.kubernetes.mpirun import under_mpirun
from trainway.launch.kubernetes.options import KubernetesOptions, check_options, kind_of
from trainway.launch.kubernetes.who_shares import JobShare, share_of
from trainway.launch.program.locations import check_locations, check_team
from trainway.launch.program.request import Request
from trainway.spec.facts.catalogue import Catalogue


@dataclass(frozen=True)
class KubernetesRun:
    """A request with what its objects have in common. The `kind` of the `options` is set."""

    request: Request
    options: KubernetesOptions
    catalogue: Catalogue
    share: JobShare


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
    return KubernetesRun(under_mpirun(request) if kind == "MPIJob" else request, options, catalogue, share)
