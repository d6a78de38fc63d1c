"""The target `kubernetes`: an object of the platform's own cluster."""

from __future__ import annotations

from trainway.launch.kubernetes.cluster_state import cluster_state
from trainway.launch.kubernetes.context import on_platform
from trainway.launch.kubernetes.evidence import evidence
from trainway.launch.kubernetes.known_nodes import known_nodes
from trainway.launch.kubernetes.options import KINDS, KubernetesOptions
from trainway.launch.kubernetes.render import as_yaml, render_documents, shown_documents
from trainway.launch.kubernetes.submit import find, submit
from trainway.launch.kubernetes.watch import check_shell, forward, logs, shell, state, stop
from trainway.launch.program.request import Request
from trainway.launch.starting.prepare import requests_on_platform
from trainway.launch.target.protocol import Handle, Target
from trainway.spec.facts.catalogue import Catalogue, load_catalogue
from trainway.spec.sections.orchestrator import Orchestrator


def _render(request: Request, catalogue: Catalogue, options: KubernetesOptions) -> str:
    return as_yaml(render_documents(request, catalogue, options))


def _submit(request: Request, catalogue: Catalogue, options: KubernetesOptions) -> Handle:
    return submit(request, render_documents(request, catalogue, options))


def _find(request: Request, options: KubernetesOptions) -> Handle | None:
    return find(request, render_documents(request, load_catalogue(), options))


TARGET = Target(
    name="kubernetes",
    heading="On Kubernetes",
    options=KubernetesOptions,
    orchestrators=tuple(each for each in Orchestrator if each.is_kubernetes),
    handle={
        "context": r"[A-Za-z0-9_][^\s]{0,511}",
        "namespace": r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
        "kind": "|".join(KINDS),
        "name": r"(?P<run>[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)",
        "logs": r"(s3:/)?(/(?!\.{1,2}(/|$))[A-Za-z0-9_.@+=-]+)+",
    },
    on_platform=on_platform,
    decided=("context", "namespace"),
    prepare=requests_on_platform,
    render=_render,
    shown=shown_documents,
    submit=_submit,
    find=_find,
    state=state,
    logs=logs,
    stop=stop,
    shell=shell,
    interactive=True,
    check_shell=check_shell,
    forward=forward,
    evidence=evidence,
    known_nodes=known_nodes,
    cluster_state=cluster_state,
)
