"""Evidence of a run that was launched from here, wherever it runs: each target is asked for what it has.

What cannot be had is left out, an event that one may not read as well as the logs of pods that are gone: what is
there may do.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainway.explain.evidence import Evidence, Log
from trainway.explain.gather import evidence_of_run, log_of_path, with_exits
from trainway.explain.kubernetes import kubernetes_evidence
from trainway.explain.sagemaker import sagemaker_evidence
from trainway.explain.slurm import slurm_evidence
from trainway.launch.run_directory import read_launch
from trainway.launch.target import Handle
from trainway.spec.errors import UsageError, usage_error

# `[node rank] line` of a target's logs, the rank being that on its node, or `-` where there is none.
_MARKED = re.compile(r"^\[(?P<node>\S+)(?: (?P<rank>\d+|-))?\] ?(?P<line>.*)$")
_MOST_BYTES_OF_A_FILE = 256 * 2**10
_END_OF_PART = "-- trainway --"


def evidence_of(run: Path) -> Evidence:
    """What is known of a run, by its directory here, which has its launch.json.

    Raises UsageError where its target is none of this version's, or cannot be asked for anything.
    """
    record = read_launch(run)
    return evidence_of_handle(record["target"], record["handle"])


def evidence_of_handle(target: str, handle: Handle) -> Evidence:
    """The same by what the target made of the run."""
    gather = _GATHER.get(target)
    if gather is None:
        why = f"this version knows {', '.join(_GATHER)}"
        raise usage_error(f"a run on {target} cannot be explained", why=why, fix="use the version that launched it")
    return gather(handle)


def logs_of_lines(lines: Iterable[str]) -> tuple[Log, ...]:
    """The lines of a target's `logs`, as a log for each rank of each node."""
    texts: dict[tuple[str, str | None], list[str]] = {}
    for line in lines:
        found = _MARKED.match(line)
        key = (found["node"], found["rank"]) if found else ("", None)
        texts.setdefault(key, []).append(found["line"] if found else line)
    return tuple(_log_of(node, rank, words) for (node, rank), words in texts.items())


def _log_of(node: str, rank: str | None, lines: list[str]) -> Log:
    local_rank = int(rank) if rank and rank.isdigit() else None
    named = f"node {node}" if node.isdigit() else node or None
    name = " ".join(part for part in ("logs of", named, f"rank {rank}" if local_rank is not None else None) if part)
    return Log(name, "\n".join(lines) + "\n", node=named, local_rank=local_rank)


def _local(handle: Handle) -> Evidence:
    return evidence_of_run(Path(handle["run"]))


def _slurm(handle: Handle) -> Evidence:
    """What Slurm says of the job and its nodes, and the end of every log of its newest start."""
    from trainway.launch.slurm.cluster import on_cluster

    job, directory = shlex.quote(handle["job"]), shlex.quote(f"{handle['directory']}/logs")
    line = f"""
sacct --parsable2 --jobs={job} --format=JobID,State,ExitCode,End,NodeList,Reason 2>/dev/null || true
echo '{_END_OF_PART}'
scontrol show job {job} 2>/dev/null || true
echo '{_END_OF_PART}'
nodes=$(scontrol --oneliner show job {job} 2>/dev/null | grep -o ' NodeList=[^ ]*' | cut -d= -f2 || true)
if [[ $nodes && $nodes != '(null)' ]]; then
  scontrol show node "$nodes" 2>/dev/null || true
fi
echo '{_END_OF_PART}'
cd {directory} 2>/dev/null || exit 0
newest=$(find . -maxdepth 1 -name 'start-*' -printf '%P\\n' | sort --version-sort | tail -n 1)
find slurm.log ${{newest:+"$newest"}} -name '*.log' -size +0 2>/dev/null | while read -r file; do
  echo "$file $(tail -c {_MOST_BYTES_OF_A_FILE} "$file" | base64 -w 0)"
done
"""
    said = on_cluster(line, handle, what=f"job {handle['job']} cannot be explained")
    *parts, files = said.split(f"{_END_OF_PART}\n")
    evidence = Evidence()
    for part in parts:
        evidence += slurm_evidence(part, f"job {handle['job']}")
    rows = (row.split(" ", 1) for row in files.splitlines())
    logs = [log_of_path(path, base64.b64decode(text).decode(errors="replace")) for path, text in rows]
    return evidence + with_exits(logs)


def _kubernetes(handle: Handle) -> Evidence:
    """Pods, what was said of them and of the job, their nodes, and the end of what they wrote."""
    from trainway.launch.kubernetes.kubectl import at, items, kubectl_json, resource
    from trainway.launch.kubernetes.watch import logs
    from trainway.launch.kubernetes.who_shares import RUN_LABEL

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
    lines: tuple[Log, ...] = ()
    with suppress(UsageError):
        lines = logs_of_lines(logs(handle, follow=False))
    return kubernetes_evidence(objects) + with_exits(lines)


def _each(found: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if found is not None:
        yield from found.get("items", (found,))


def _is_about(item: Mapping[str, Any], name: str) -> bool:
    """True of the job, of what was made for it, and of an event about either: their names have the run's in them."""
    about = item.get("involvedObject") or item.get("metadata") or {}
    return name in str(about.get("name", ""))


def _sagemaker(handle: Handle) -> Evidence:
    from trainway.launch.sagemaker.api import client, described, explained
    from trainway.launch.sagemaker.logs import logs

    with explained(f"{handle['name']} cannot be explained"):
        found = described(client("sagemaker", handle["region"]), handle["name"])
    evidence = sagemaker_evidence(found) if found else Evidence()
    lines: tuple[Log, ...] = ()
    with suppress(UsageError):
        lines = logs_of_lines(logs(handle, follow=False))
    return evidence + with_exits(lines)


_GATHER: Mapping[str, Callable[[Handle], Evidence]] = {
    "local": _local,
    "slurm": _slurm,
    "kubernetes": _kubernetes,
    "sagemaker": _sagemaker,
}
