"""Tell users at login which node they are on and what to do next.

Nothing here waits for long, and nothing accesses a network file system, because a login must never hang.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

STATE = Path("/var/lib/trainway/provisioning.json")
# Time limit of each query to Slurm, in seconds.
LIMIT_SECONDS = 2.0


def ask(*command: str) -> list[str] | None:
    """Return the lines of the answer, or None if there is none in time."""
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '/usr/bin:/bin')}:/opt/slurm/bin"}
    try:
        done = subprocess.run(
            ["env", *command], env=environment, capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()


def mounted() -> dict[str, str]:
    """Return the type of the file system at each mount point."""
    lines = Path("/proc/mounts").read_text().splitlines()
    return {where: kind for _, where, kind, *_ in map(str.split, lines)}


def nodes_and_jobs() -> str:
    """Return the number of idle nodes, and of running and pending jobs."""
    nodes = ask("sinfo", "--noheader", "--Node", "--format=%N %T")
    if nodes is None:
        return "Slurm does not answer; `scontrol ping` says more"
    # A node is listed once for each of its partitions.
    states = Counter(state.rstrip("*~#!%$@^-+") for _, state in {tuple(line.split()) for line in nodes})
    jobs = Counter(ask("squeue", "--noheader", "--all", "--format=%T") or [])
    bad = states["down"] + states["drained"] + states["draining"] + states["fail"]
    told = f"{states['idle']} of {states.total()} nodes idle"
    told += f", {bad} down or drained (`sinfo -R` says why)" if bad else ""
    return f"{told}; {jobs['RUNNING']} jobs run, {jobs['PENDING']} wait"


def lines(state: dict[str, object], facts: dict[str, str]) -> list[str]:
    """Return the lines of the message."""
    role, shared = facts["NODE_ROLE"], facts.get("FSX_MOUNT_PATH")
    said = [f"{facts['CLUSTER_NAME']}: {role} node {facts['NODE_NAME']}, {facts['INSTANCE_TYPE']}", ""]
    if facts["ORCHESTRATOR"] == "hyperpod-slurm":
        said.append(f"  now      {nodes_and_jobs()}")
        if role == "compute":
            said.append("  this node runs jobs; submit them on a login node, or on the controller where there is none")
        else:
            said.append("  a job    trainway launch job.yaml --target slurm, from here or from your own machine")
            said.append("           sbatch --nodes=2 train.sh     squeue --me     scancel JOB     sinfo")
    kinds = mounted()
    if shared:
        has = "shared by all nodes; runs are in runs/" if shared in kinds else "NOT MOUNTED"
        said.append(f"  {shared:<8} {has}")
    if kinds.get("/home", "").startswith("nfs"):
        said.append("  /home    your home, the same on all nodes")
    said.append("  more     docs/slurm.md and docs/launch-slurm.md, beside the platform file")
    if state.get("status") != "done":
        said.append(f"  PROVISIONING {str(state.get('status')).upper()}: {state.get('why') or 'see provisioning.log'}")
    warnings = state.get("warnings")
    for warning in warnings if isinstance(warnings, list) else []:
        said.append(f"  WARNING  {warning}")
    return said


def main() -> None:
    state = json.loads(STATE.read_text())
    print("\n".join(["", *lines(state, state["facts"]), ""]))


if __name__ == "__main__":
    main()
