"""Running kubectl as whoever launches: with their kubeconfig, their credentials and their rights."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from trainway.spec.errors import UsageError, usage_error

_ONLY_INSIDE = (
    "the Kubernetes API may answer inside the VPC only: connect to the VPC, or add your public range to "
    "`kubernetes.endpoint` in the platform file, as docs/kubernetes-access.md shows"
)
# What kubectl says, and what helps.
_REMEDIES = (
    ("no matches for kind", "the cluster has no operator for it: use --kind TrainJob, or install one"),
    ("the server doesn't have a resource type", "the cluster has no operator for it: use --kind TrainJob"),
    ("context was not found", "add the platform's cluster: `aws eks update-kubeconfig --name CLUSTER --region REGION`"),
    ("forbidden", "ask whoever runs the platform to make you a member of the job's team: docs/teams.md"),
    ("Unauthorized", "`aws sts get-caller-identity` shows who you are, and docs/people.md who has access"),
    ("You must be logged in", "`aws sts get-caller-identity` shows who you are, and docs/people.md who has access"),
    ("getting credentials", "`aws sts get-caller-identity` shows whether this shell has credentials"),
    ("dial tcp", _ONLY_INSIDE),
    ("Unable to connect to the server", _ONLY_INSIDE),
)


# What kubectl calls the kinds, in full: several groups may have one of the same name.
_RESOURCES = {
    "TrainJob": "trainjobs.trainer.kubeflow.org",
    "PyTorchJob": "pytorchjobs.kubeflow.org",
    "HyperPodPyTorchJob": "hyperpodpytorchjobs.sagemaker.amazonaws.com",
    "MPIJob": "mpijobs.kubeflow.org",
    "JobSet": "jobsets.jobset.x-k8s.io",
    "RayJob": "rayjobs.ray.io",
    "TrainingRuntime": "trainingruntimes.trainer.kubeflow.org",
    "ConfigMap": "configmap",
}


def resource(handle: Mapping[str, str]) -> str:
    """Return the run's object as kubectl names it: `KIND/NAME`."""
    return named(handle["kind"], handle["name"])


def resource_of(kind: str) -> str:
    """Return what kubectl calls the objects of a kind, for example `jobsets.jobset.x-k8s.io`."""
    return _RESOURCES[kind]


def named(kind: str, name: str) -> str:
    """Return what kubectl calls an object of the kind, for example `configmap/llama-8b`."""
    return f"{_RESOURCES[kind]}/{name}"


def at(handle: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options of kubectl for the context and the namespace of a run."""
    return ("--context", handle["context"], "--namespace", handle["namespace"])


def kubectl(*arguments: str, what: str, stdin: str | None = None) -> str:
    """Return what kubectl prints. Raises UsageError, which begins with `what`, if kubectl fails."""
    try:
        ran = subprocess.run(("kubectl", *arguments), input=stdin, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        fix = "install it: https://kubernetes.io/docs/tasks/tools/#kubectl"
        raise usage_error(what, why="kubectl is not on PATH", fix=fix) from None
    if ran.returncode != 0:
        raise failure(what, ran.stderr)
    return ran.stdout


def kubectl_json(*arguments: str, what: str) -> dict[str, Any] | None:
    """Return the object or the list that kubectl prints as JSON, or None if the object does not exist."""
    printed = kubectl(*arguments, "--ignore-not-found", "--output=json", what=what)
    document: dict[str, Any] | None = json.loads(printed) if printed.strip() else None
    return document


def items(document: Mapping[str, Any] | None) -> Sequence[dict[str, Any]]:
    """Return the objects of a list."""
    found: Sequence[dict[str, Any]] = document["items"] if document else ()
    return found


def failure(what: str, said: str) -> UsageError:
    """Return the error for the output of kubectl: the line that has a known remedy, or else the last line."""
    lines = [line.removeprefix("error: ") for line in said.splitlines() if line.strip()]
    known = [(line, fix) for words, fix in _REMEDIES for line in lines if words in line]
    why, fix = (*known, (lines[-1] if lines else "it did not say why", "`kubectl get events` may say more"))[0]
    return usage_error(what, why=why, fix=fix)
