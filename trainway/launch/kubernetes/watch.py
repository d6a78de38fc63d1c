"""Watch and control a run on Kubernetes: its state, its logs, its end, and a shell on one of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainway.launch.kubernetes.job_state import job_state, node_index
from trainway.launch.kubernetes.kubectl import at, items, kubectl, kubectl_json, resource
from trainway.launch.kubernetes.pod_logs import lines_as_they_come, lines_so_far
from trainway.launch.kubernetes.who_shares import RUN_LABEL
from trainway.launch.target.protocol import OVER, Handle, Phase, State
from trainway.launch.target.wanted_lines import EVERY_LINE, WantedLines, cannot_choose
from trainway.spec.errors import UsageError, usage_error

# https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/pkg/controller/constants/constants.go (read 2026-11-21)
JOB_UID = "kueue.x-k8s.io/job-uid"


def state(handle: Handle) -> State:
    """Return the state of the run, and why it waits."""
    what = f"{handle['name']} cannot be looked at"
    job = kubectl_json(*at(handle), "get", resource(handle), what=what)
    if job is None:
        return State(Phase.GONE)
    pods = _pods(handle)
    return job_state(job, pods, () if pods else _workloads(handle, job["metadata"]["uid"]))


def logs(handle: Handle, *, follow: bool, wanted: WantedLines = EVERY_LINE) -> Iterator[str]:
    """Yield the lines of all nodes, each with `[NODE LOCAL_RANK]` at its beginning.

    Without `follow`, they are in the order of their times. Raises UsageError for a run whose pods are gone.
    """
    if wanted.attempt is not None:
        why = "Kubernetes keeps the lines of the pods that are there, which belong to the newest attempt"
        fix = f"those of earlier attempts are {_kept(handle)}"
        raise cannot_choose("--attempt", handle["name"], why, fix)

    def pods_of_nodes() -> Sequence[dict[str, Any]]:
        return [pod for pod in _pods(handle) if wanted.node in (None, str(node_index(pod)))]

    if follow:
        lines = lines_as_they_come(handle, pods_of_nodes, lambda: state(handle).phase in OVER, wanted)
        yield from wanted.of_processes(lines)
        return
    pods = _pods(handle)
    if not pods:
        raise usage_error(
            f"{handle['name']} has no logs in Kubernetes",
            why=f"it has no pods: {state(handle).phase.value}",
            fix=f"what earlier ones wrote is {_kept(handle)}",
        )
    yield from wanted.of_processes(lines_so_far(handle, pods_of_nodes(), wanted))


def stop(handle: Handle) -> None:
    """Delete the job, and give its pods time to save. A queue would start a job again that is only suspended.

    The object stays until the last pod has ended.
    https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/ (read 2026-11-21)
    """
    how = ("--cascade=foreground", "--wait=false", "--ignore-not-found")
    kubectl(*at(handle), "delete", resource(handle), *how, what=f"{handle['name']} cannot be stopped")


def shell(handle: Handle, node: int) -> Sequence[str]:
    """Return the command for a shell. Raises UsageError if there is no such node, or the role may not open one."""
    what = f"there is no shell on node {node} of {handle['name']}"
    check_shell(handle, what)
    return ("kubectl", *at(handle), "exec", "--stdin", "--tty", _pod(handle, node, what), "--", "bash")


def check_shell(handle: Handle, what: str | None = None) -> None:
    """Raise UsageError, which begins with `what`, if the caller may not open a shell in the pods of a run."""
    if not _may_open_a_shell(handle):
        raise usage_error(
            what or f"there is no shell in {handle['name']}",
            why="your role does not allow it: members of a team have none in pods (docs/teams.md)",
            fix="ask somebody of kubernetes.admins, or start a workspace",
        )


def forward(handle: Handle, node: int, port: int, local_port: int) -> Sequence[str]:
    """Return the command that forwards a port of this machine's loopback interface to the pod of a node.

    Raises UsageError for a node that the run does not have.
    https://kubernetes.io/docs/reference/kubectl/generated/kubectl_port-forward/ (read 2026-11-23)
    """
    pod = _pod(handle, node, f"port {port} on node {node} of {handle['name']} cannot be forwarded")
    return ("kubectl", *at(handle), "port-forward", "--address=127.0.0.1", f"pod/{pod}", f"{local_port}:{port}")


def _kept(handle: Handle) -> str:
    """Return a phrase that locates the logs of deleted pods."""
    where = f"below {handle['logs']}"
    if handle["logs"].startswith("s3://"):
        return f"{where}; `trainway copy {handle['name']} --only 'logs/*'` fetches them"
    return f"{where} of the file system, and in the bucket"


def _pod(handle: Handle, node: int, what: str) -> str:
    pods: dict[int, str] = {node_index(pod): pod["metadata"]["name"] for pod in _pods(handle)}
    if node not in pods:
        has = f"it has {', '.join(str(index) for index in sorted(pods))}" if pods else "it has no pods"
        raise usage_error(what, why=has, fix="`trainway status` says how far it is")
    return pods[node]


def _pods(handle: Handle) -> Sequence[dict[str, Any]]:
    selector = f"--selector={RUN_LABEL}={handle['name']}"
    return items(kubectl_json(*at(handle), "get", "pods", selector, what=f"{handle['name']} cannot be looked at"))


def _workloads(handle: Handle, uid: str) -> Sequence[Mapping[str, Any]]:
    """Return the run's workloads in Kueue, or nothing if Kueue is not installed."""
    selector = f"--selector={JOB_UID}={uid}"
    try:
        return items(kubectl_json(*at(handle), "get", "workloads.kueue.x-k8s.io", selector, what="no workloads"))
    except UsageError:
        return ()


def _may_open_a_shell(handle: Handle) -> bool:
    question = ("auth", "can-i", "create", "pods", "--subresource=exec")
    try:
        return kubectl(*at(handle), *question, what="no").strip().endswith("yes")
    except UsageError:
        return False
