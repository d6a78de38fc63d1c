"""Starting a workspace, connecting to it, and ending it, with kubectl and the rights of whoever does."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainway.extensions.workspace.container import PORT, TOKEN
from trainway.extensions.workspace.definition import Workspace, name_of
from trainway.extensions.workspace.documents import render_workspace
from trainway.launch.kubernetes.context import find_context
from trainway.launch.kubernetes.job_state import job_state
from trainway.launch.kubernetes.kubectl import at, items, kubectl, kubectl_json
from trainway.launch.kubernetes.render import as_yaml
from trainway.launch.kubernetes.who_shares import RUN_LABEL, namespace_of_team
from trainway.launch.target.protocol import OVER, Handle, Phase, State
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff

# In a dry run nothing is made, the token neither.
NO_TOKEN = "made when the workspace is started"
_APPLY = ("apply", "--server-side", "--field-manager=trainway", "--filename=-")
_ENDING_SECONDS = 120


@dataclass(frozen=True)
class Connection:
    """`command` forwards a port of this machine's loopback for as long as it runs; `url` is what a browser opens."""

    command: tuple[str, ...]
    url: str


def start(workspace: Workspace, catalogue: Catalogue) -> Handle:
    """Start a workspace, and return its handle. A start that fails leaves nothing behind.

    Raises UsageError where the cluster cannot be reached or refuses it, and where the owner has one already.
    """
    what = f"the workspace of {workspace.owner} cannot be started"
    documents = render_workspace(workspace, catalogue, secrets.token_urlsafe(32))
    handle = find(workspace.hand_off, workspace.owner, workspace.team)
    if (found := state(handle)).phase not in OVER:
        why = f"there is one, which is {found.phase.value}"
        raise usage_error(what, why=why, fix="connect to it, or end it first: `trainway workspace --help`")
    how = ("--cascade=foreground", "--ignore-not-found", f"--timeout={_ENDING_SECONDS}s")
    kubectl(*at(handle), "delete", f"jobs.batch/{workspace.name}", f"secrets/{workspace.name}", *how, what=what)
    text = as_yaml(documents)
    # The API server looks at both, and so do the guards of queues, before the first is there.
    kubectl(*at(handle), *_APPLY, "--dry-run=server", what=what, stdin=text)
    kubectl(*at(handle), *_APPLY, what=what, stdin=text)
    _let_the_job_own_its_token(handle, what)
    return handle


def find(hand_off: HandOff, owner: str, team: str | None = None) -> Handle:
    """Return the handle of an owner's workspace, which need not exist.

    Raises UsageError where the kubeconfig does not know the cluster, or a team must be named.
    """
    what = f"the workspace of {owner} cannot be found"
    namespace = namespace_of_team(hand_off, team, what=what, nobody="the command", key="--team")
    return {"context": find_context(hand_off), "namespace": namespace, "name": name_of(owner)}


def state(handle: Handle) -> State:
    """Return the state of the workspace, and why it waits."""
    job = _job(handle, f"{handle['name']} cannot be looked at")
    return State(Phase.GONE) if job is None else job_state(job, _pods(handle), ())


def connect(handle: Handle, port: int = PORT) -> Connection:
    """Return how to connect to the workspace from this machine. Raises UsageError if the workspace is not ready."""
    what = f"{handle['name']} cannot be connected to"
    pod = next((pod for pod in _pods(handle) if _is_ready(pod)), None)
    secret = kubectl_json(*at(handle), "get", f"secrets/{handle['name']}", what=what)
    if pod is None or secret is None:
        found = state(handle)
        why = ": ".join(part for part in (f"it is {found.phase.value}", found.reason) if part)
        fix = "start one" if found.phase in OVER else "wait until it answers; the first time it installs JupyterLab"
        raise usage_error(what, why=why, fix=fix)
    token = base64.b64decode(secret["data"][TOKEN]).decode()
    forward = ("port-forward", "--address=127.0.0.1", f"pod/{pod['metadata']['name']}", f"{port}:{PORT}")
    return Connection(("kubectl", *at(handle), *forward), f"http://127.0.0.1:{port}/lab?token={token}")


def end(handle: Handle) -> None:
    """End the workspace. The owner's home directory stays."""
    how = ("--cascade=foreground", "--wait=false", "--ignore-not-found")
    what = f"{handle['name']} cannot be ended"
    kubectl(*at(handle), "delete", f"jobs.batch/{handle['name']}", *how, what=what)


def _job(handle: Handle, what: str) -> dict[str, Any] | None:
    return kubectl_json(*at(handle), "get", f"jobs.batch/{handle['name']}", what=what)


def _pods(handle: Handle) -> list[dict[str, Any]]:
    selector = f"--selector={RUN_LABEL}={handle['name']}"
    return list(items(kubectl_json(*at(handle), "get", "pods", selector, what=f"{handle['name']} cannot be looked at")))


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _let_the_job_own_its_token(handle: Handle, what: str) -> None:
    """Make the Job the owner of the Secret, so that Kubernetes deletes both together.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/ (read 2026-11-21)
    """
    job = _job(handle, what)
    if job is None:
        return  # somebody was quicker, and deleted it
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": handle["name"], "uid": job["metadata"]["uid"]}
    patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
    kubectl(*at(handle), "patch", f"secrets/{handle['name']}", "--type=merge", f"--patch={patch}", what=what)
