"""Handing a run to Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from trainway.launch.kubernetes.context import find_context
from trainway.launch.kubernetes.kubectl import at, kubectl, kubectl_json, resource
from trainway.launch.kubernetes.process import STOP_SECONDS
from trainway.launch.kubernetes.render import as_yaml
from trainway.launch.kubernetes.watch import OVER, state
from trainway.launch.request import Request
from trainway.spec.errors import usage_error

_TO_TIDY_UP_SECONDS = 60
_APPLY = ("apply", "--server-side", "--field-manager=trainway", "--filename=-")


def submit(request: Request, documents: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Applies what `render_documents` made, all of it or nothing, and returns the run's handle.

    A run that has ended goes on: what is left of it makes room. Raises UsageError where the cluster cannot be reached
    or refuses a document, and for a run that has not ended.
    """
    job, what = documents[-1], f"{request.run} cannot be submitted to {request.hand_off.platform}"
    handle = {
        "context": find_context(request.hand_off),
        "namespace": job["metadata"]["namespace"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "logs": str(request.directory / "logs"),
    }
    _make_room(handle, what)
    text = as_yaml(list(documents))
    # The API server looks at all of them, and so do the guards of queues and operators, before the first is there.
    kubectl(*at(handle), *_APPLY, "--dry-run=server", what=what, stdin=text)
    kubectl(*at(handle), *_APPLY, what=what, stdin=text)
    _let_the_job_own_its_file(handle, what)
    return handle


def _make_room(handle: Mapping[str, str], what: str) -> None:
    """Waits for the last pod of a run that was stopped, and takes away the object of one that ended by itself.

    And its ConfigMap, which would otherwise be collected later, with the new run's pods waiting for it.
    """
    if (phase := state(handle).phase) not in OVER:
        raise usage_error(what, why=f"it is {phase.value}", fix="`trainway stop` ends it first")
    how = ("--cascade=foreground", "--ignore-not-found", f"--timeout={STOP_SECONDS + _TO_TIDY_UP_SECONDS}s")
    kubectl(*at(handle), "delete", resource(handle), f"configmap/{handle['name']}", *how, what=what)


def _let_the_job_own_its_file(handle: Mapping[str, str], what: str) -> None:
    """So that the ConfigMap goes when the job goes.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/ (read 2026-11-21)
    """
    job = kubectl_json(*at(handle), "get", resource(handle), what=what)
    if job is None:
        return  # somebody was quicker, and deleted it
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": handle["name"],
        "uid": job["metadata"]["uid"],
    }
    patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
    kubectl(*at(handle), "patch", f"configmap/{handle['name']}", "--type=merge", f"--patch={patch}", what=what)
