"""Render how a Slurm job gets rid of nodes that its run suspects: see training/hosts/suspect_nodes.py.

The record is in the directory of the run. A node is suspect if two files of the last day name it. Slurm excludes nodes
from a job with ExcNodeList, which `scontrol update` changes only while the job is pending: slurmctld 22.05.8 answers
"Job is no longer pending execution" for one that runs. https://slurm.schedmd.com/scontrol.html (read 2026-11-29)

So the script changes it after it has requeued the job, and before it ends. slurmctld sends it SIGTERM in between, and
SIGKILL after KillWait.
"""

from __future__ import annotations

import shlex

from trainway.launch.program.request import Request

# The functions of bash that the batch script and the line that submits it share.
#
# suspects RUN: print the suspect nodes, sorted. The names come from files that any job of the team can write.
# nodes_of OPTION...: print the nodes that respond, sorted, by options of sinfo.
_SUSPECTS = """
suspects() {
  find "$1/suspects" -mindepth 2 -maxdepth 2 -type f -name '*-*.json' -size -9 -mmin -1440 ! -newermt '1 hour' \\
    -printf '%h\\n' 2>/dev/null | sed 's|.*/||' | grep -xE '[A-Za-z0-9][A-Za-z0-9._-]{0,252}' | sort | uniq -d || true
}
nodes_of() {
  sinfo --noheader --responding --Node --format=%N "$@" | sort -u
}
"""

# What the script does at its start, and when it requeues its job.
#
# A job that excludes all nodes that could run it would wait for good. So a job that begins on a suspect node is
# requeued only if another node is idle, and each node is tried once: where Slurm refuses the change, the job must run.
IN_SCRIPT = (
    _SUSPECTS
    + """
# requeue NODES: requeue this job, exclude these nodes, which are lines, besides those that it excludes, and end.
requeue() {
  local all
  all=$({ excluded; echo "$1"; } | sort -u | sed '/^$/d' | paste -sd, -)
  trap "" TERM
  scontrol requeue "$SLURM_JOB_ID" || { trap - TERM; return 0; }
  if [[ $1 ]]; then
    scontrol update JobId="$SLURM_JOB_ID" ExcNodeList="$all" && echo "trainway: the job now excludes $all" >&2
  fi
  exit 0
}
excluded() {
  local list
  list=$(scontrol --oneliner show job "$SLURM_JOB_ID" | sed -n 's/.* ExcNodeList=\\([^ ]*\\) .*/\\1/p')
  [[ -z $list || $list == "(null)" ]] || scontrol show hostnames "$list"
}
# replaceable STATES COUNT NODES: whether so many nodes are in one of the states that are neither excluded nor in NODES.
replaceable() {
  local others
  others=$(comm -23 <(nodes_of --partition="$SLURM_JOB_PARTITION" --states="$1") <({ excluded; echo "$3"; } | sort -u))
  (($(grep -c . <<<"$others") >= $2))
}
suspect=$(comm -12 <(suspects "$run") <(scontrol show hostnames "$SLURM_JOB_NODELIST" | sort))
if [[ $suspect ]]; then
  names=$(paste -sd' ' - <<<"$suspect")
  tried=$run/suspects/tried-$SLURM_JOB_ID
  if ! grep -qxF "$names" "$tried" 2>/dev/null && replaceable idle "$(wc -l <<<"$suspect")" "$(suspects "$run")" &&
    echo "$names" >>"$tried"; then
    echo "trainway: the job is requeued without $names, which were named twice within a day: see $run/suspects" >&2
    requeue "$suspect"
  fi
  echo "trainway: $names were named twice within a day, and no idle node can replace them: see $run/suspects." \\
    "An administrator runs: scontrol update nodename=${names// /,} state=drain reason='named twice by a run'" >&2
fi
"""
)


def exclude_at_submit(request: Request, excluded: str | None) -> str:
    """Return lines of bash that set `exclude`, the option of sbatch that excludes the suspect nodes of the run.

    sbatch takes it in the place of the directive of the script, so it repeats the nodes that the launch has `excluded`.
    A run that is new has no record.
    """
    directory = shlex.quote(str(request.directory))
    partitions = ",".join(group.name for group in request.allocation.groups)
    also = f"echo {shlex.quote(excluded)}; " if excluded else ""
    return f"""{_SUSPECTS}exclude=()
if [[ -d {directory}/suspects ]]; then
  suspect=$(comm -12 <(suspects {directory}) <(nodes_of --partition={partitions}))
  others=$(comm -23 <(nodes_of --partition={partitions}) <(suspects {directory}) | wc -l)
  if [[ $suspect ]] && ((others >= {request.allocation.nodes})); then
    exclude=(--exclude="$({{ {also}echo "$suspect"; }} | paste -sd, -)")
  fi
fi
"""
