"""The evidence of a run on Kubernetes for `trainway explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from trainway.explain.evidence import Evidence
from trainway.explain.kubernetes import kubernetes_evidence
from trainway.explain.log_lines import evidence_of_lines
from trainway.launch.kubernetes.kubectl import at, items, kubectl_json, resource
from trainway.launch.kubernetes.watch import logs
from trainway.launch.kubernetes.who_shares import RUN_LABEL
from trainway.launch.target.protocol import Handle
from trainway.spec.errors import UsageError


def evidence(handle: Handle) -> Evidence:
    """Return the job, its pods with their events, their nodes, and the end of their logs.

    What is gone, or what the caller may not read, is left out. Raises UsageError if the cluster cannot be asked.
    """
    name, what = handle["name"], f"{handle['name']} cannot be explained"
    pods = items(kubectl_json(*at(handle), "get", "pods", f"--selector={RUN_LABEL}={name}", what=what))
    objects: list[Mapping[str, Any]] = list(pods)
    nodes = sorted({pod["spec"]["nodeName"] for pod in pods if (pod.get("spec") or {}).get("nodeName")})
    asked = [("get", resource(handle)), ("get", "workloads.kueue.x-k8s.io"), ("get", "events")]
    for question in [*asked, *([("get", "nodes", *nodes)] if nodes else [])]:
        # Not all clusters have queues, and members of a team may not read nodes.
        with suppress(UsageError):
            found = kubectl_json(*at(handle), *question, what=what)
            objects += [each for each in _each(found) if question[1] == "nodes" or _is_about(each, name)]
    found_in_logs = Evidence()
    with suppress(UsageError):
        found_in_logs = evidence_of_lines(logs(handle, follow=False))
    return kubernetes_evidence(objects) + found_in_logs


def _each(found: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if found is not None:
        yield from found.get("items", (found,))


def _is_about(item: Mapping[str, Any], name: str) -> bool:
    """Return whether an object or event is about the job or its parts: their names contain the run's name."""
    about = item.get("involvedObject") or item.get("metadata") or {}
    return name in str(about.get("name", ""))
