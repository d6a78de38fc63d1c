"""Handing a run to Kubernetes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from trainway.launch.kubernetes.context import find_context
from trainway.launch.kubernetes.kubectl import at, kubectl, kubectl_json, named, resource
from trainway.launch.kubernetes.process import STOP_SECONDS
from trainway.launch.kubernetes.render import as_yaml
from trainway.launch.kubernetes.watch import state
from trainway.launch.node.node_of_run import LAUNCH
from trainway.launch.program.request import Request
from trainway.launch.target.protocol import OVER, Phase
from trainway.spec.errors import UsageError, usage_error

_TO_TIDY_UP_SECONDS = 60
_GONE_LATER = ("--cascade=foreground", "--ignore-not-found", "--wait=false")
_APPLY = ("apply", "--server-side", "--field-manager=trainway", "--filename=-")


def submit(request: Request, documents: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Apply the documents, all or none of them, and return the run's handle.

    A run that has ended is continued, and its remaining objects are deleted first. Raises UsageError if the cluster
    cannot be reached or refuses a document, and for a run that has not ended.
    """
    *files, job = documents
    what = f"{request.run} cannot be submitted to {request.hand_off.platform}"
    handle = _handle(request, job)
    _make_room(handle, what)
    if request.program.started_by is not None or request.program.counts_restarts:
        files = [_with_launch(each) if each["kind"] == "ConfigMap" else each for each in files]
    _apply(handle, files, job, what)
    _let_the_job_own(handle, files, what)
    return handle


def find(request: Request, documents: Sequence[dict[str, Any]]) -> dict[str, str] | None:
    """Return the handle of the run whose documents these are, or None if the cluster does not have its job."""
    handle = _handle(request, documents[-1])
    return None if state(handle).phase is Phase.GONE else handle


def _handle(request: Request, job: Mapping[str, Any]) -> dict[str, str]:
    return {
        "context": find_context(request.hand_off),
        "namespace": job["metadata"]["namespace"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "logs": _kept_logs(request),
    }


def _kept_logs(request: Request) -> str:
    """Return where the logs of the run stay: the directory of the file system, or their prefix in the bucket."""
    return str(request.directory / "logs") if request.hand_off.file_system else f"{request.location}/logs"


def _with_launch(config_map: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run's ConfigMap with a name for this launch, which a run that is resumed has another one of.

    The operators of some kinds start a run again after any failure. The starter of the program then knows by the name
    that an earlier attempt of the same launch failed for good. The training job counts its starts by launch.
    """
    return {**config_map, "data": {**config_map["data"], LAUNCH: uuid.uuid4().hex}}


def _apply(handle: Mapping[str, str], files: Sequence[dict[str, Any]], job: dict[str, Any], what: str) -> None:
    """Apply all documents, or none if the API server or the guard of a queue or an operator refuses one of them."""
    if len(files) == 1:
        text = as_yaml([*files, job])
        kubectl(*at(handle), *_APPLY, "--dry-run=server", what=what, stdin=text)
        kubectl(*at(handle), *_APPLY, what=what, stdin=text)
        return
    # Trainer refuses a TrainJob, also in a dry run, whose runtime does not exist.
    # https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/core/trainingruntime.go (ValidateObjects, read
    # 2026-11-22)
    text = as_yaml(list(files))
    kubectl(*at(handle), *_APPLY, "--dry-run=server", what=what, stdin=text)
    kubectl(*at(handle), *_APPLY, what=what, stdin=text)
    try:
        kubectl(*at(handle), *_APPLY, what=what, stdin=as_yaml([job]))
    except UsageError:
        names = [named(each["kind"], handle["name"]) for each in files]
        kubectl(*at(handle), "delete", *names, *_GONE_LATER, what=what)
        raise


def _make_room(handle: Mapping[str, str], what: str) -> None:
    """Wait for the last pod of a run that was stopped, and delete the object of one that ended by itself.

    What belongs to the object is deleted too. Kubernetes would otherwise collect it later, under the new run's pods.
    """
    if (phase := state(handle).phase) not in OVER:
        raise usage_error(what, why=f"it is {phase.value}", fix="`trainway stop` ends it first")
    how = ("--cascade=foreground", "--ignore-not-found", f"--timeout={STOP_SECONDS + _TO_TIDY_UP_SECONDS}s")
    kinds = ("ConfigMap", *(("TrainingRuntime",) if handle["kind"] == "TrainJob" else ()))
    names = [named(kind, handle["name"]) for kind in kinds]
    kubectl(*at(handle), "delete", resource(handle), *names, *how, what=what)


def _let_the_job_own(handle: Mapping[str, str], files: Sequence[dict[str, Any]], what: str) -> None:
    """Make the job the owner of its ConfigMap and its runtime, so that they are deleted with the job.

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
    for each in files:
        owned = named(each["kind"], handle["name"])
        kubectl(*at(handle), "patch", owned, "--type=merge", f"--patch={patch}", what=what)
