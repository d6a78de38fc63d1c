"""The nodes and jobs of a Slurm cluster, from scontrol, squeue, and the exporters of nodes and runs."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trainway.launch.slurm.cluster import cluster_of, on_cluster
from trainway.launch.slurm.watch import phase_of
from trainway.launch.target.cluster_state import (
    ClusterJob,
    ClusterNode,
    ClusterState,
    run_metrics,
)
from trainway.launch.target.protocol import Phase
from trainway.spec.facts.metrics_ports import DCGM_METRICS_PORT, RUN_METRICS_PORT
from trainway.spec.handoff import HandOff

# The name comes last, because it may contain any character. SLURM_TIME_FORMAT applies to the time of submission, which
# is in the time zone of the machine: https://slurm.schedmd.com/squeue.html (read 2026-11-26)
_JOBS = "%A|%u|%a|%T|%D|%b|%V|%N|%r|%j"
# A scrape of a node that does not answer ends after 2 seconds, and 32 scrapes run in parallel. Each line that a scrape
# prints begins with the name of its node.
_LINE = f"""
scontrol --oneliner --detail show node || exit
echo ---
jobs=$(SLURM_TIME_FORMAT=standard squeue --noheader --format='{_JOBS}') || exit
while IFS='|' read -r job user account state count gres since nodes rest; do
  [[ $job ]] || continue
  printf '%s|' "$job" "$user" "$account" "$state" "$count" "$gres" "$(date --date="$since" +%s 2>/dev/null)"
  [[ $nodes ]] && scontrol show hostnames "$nodes" </dev/null | tr '\\n' ','
  printf '|%s\\n' "$rest"
done <<<"$jobs"
echo ---
scrape() {{
  curl --silent --max-time 2 "http://$1:$2/metrics" | grep -E "^(DCGM_FI_DEV_GPU_UTIL|trainway_run_)" |
    while IFS= read -r line; do printf '%s %s\\n' "$1" "$line"; done
}}
export -f scrape
if [[ $(command -v curl) ]]; then
  nodes=$(squeue --noheader --states=RUNNING --format=%N)
  for each in $nodes; do scontrol show hostnames "$each"; done | sort -u |
    xargs -r -P 32 -I NODE bash -c 'scrape NODE {DCGM_METRICS_PORT}; scrape NODE {RUN_METRICS_PORT}'
fi
exit 0
"""
_FIELD = re.compile(r"(?:^|\s)(\w+)=(\S*)")
_GPUS = re.compile(r"gpu(?::[^:(),]+)?[:=](\d+)")


def cluster_state(hand_off: HandOff, user: str | None = None) -> ClusterState:
    """Return the state of the cluster. `user` is the login name there, for a machine without Slurm.

    Raises UsageError if Slurm cannot be asked.
    """
    said = on_cluster(_LINE, cluster_of(hand_off, user), what=f"the nodes of {hand_off.platform} are not known")
    nodes, jobs, samples = (part.splitlines() for part in f"{said}\n".split("---\n", 2))
    by_node: dict[str, list[str]] = defaultdict(list)
    for line in samples:
        node, _, sample = line.partition(" ")
        by_node[node].append(sample)
    return ClusterState(
        tuple(_node(line, by_node) for line in nodes if line.strip()),
        tuple(_with_metrics(job, by_node) for job in _jobs(jobs)),
        () if by_node or not jobs else ("no exporter of a node or a run answered: GPU use and tokens/s are unknown",),
    )


def _node(line: str, samples: Mapping[str, Sequence[str]]) -> ClusterNode:
    fields = dict(_FIELD.findall(line))
    _, _, reason = line.partition(" Reason=")
    name = fields["NodeName"]
    used = [float(each.rpartition(" ")[2]) for each in samples.get(name, ()) if each.startswith("DCGM_")]
    return ClusterNode(
        name,
        fields["State"].lower(),
        group=fields.get("Partitions", "").partition(",")[0] or None,
        gpus=_gpus(fields.get("Gres", "")),
        allocated=_gpus(fields.get("GresUsed", "")),
        used=statistics.fmean(used) / 100 if used else None,
        reason=reason.strip(),
    )


def _gpus(gres: str) -> int | None:
    """Return the GPUs in a list of generic resources such as `gpu:h100:8(S:0-1)`; 0 for a list without GPUs."""
    found = _GPUS.findall(gres)
    return sum(map(int, found)) if found else 0 if gres else None


def _jobs(lines: Sequence[str]) -> Iterator[ClusterJob]:
    for line in lines:
        job, user, account, state, count, gres, since, nodes, reason, name = line.split("|", 9)
        phase, why = phase_of(state, reason)
        per_node = _GPUS.findall(gres)
        yield ClusterJob(
            name,
            phase,
            {"job": job},
            owner=user,
            team=account if account not in ("", "(null)") else None,
            reason=why,
            nodes=tuple(each for each in nodes.split(",") if each),
            # squeue's field %b has only the GPUs that are requested per node.
            gpus=int(count) * sum(map(int, per_node)) if per_node else None,
            since=float(since) if since.isdigit() else None,
        )


def _with_metrics(job: ClusterJob, samples: Mapping[str, Sequence[str]]) -> ClusterJob:
    """Return the job with the samples of its first node, which counts the tokens of all ranks."""
    if job.phase is not Phase.RUNNING or not job.nodes:
        return job
    return replace(job, metrics=run_metrics("\n".join(samples.get(job.nodes[0], ())), job.name))
