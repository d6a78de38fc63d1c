"""Metrics of Slurm's nodes, jobs, and scheduler, with the names of the exporter in AWS's scripts.

https://github.com/SckyzO/slurm_exporter/blob/main/docs/metrics.md (read 2026-11-22)
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable

Samples = list[tuple[dict[str, str], float]]
Family = tuple[str, str, str, Samples]

# Interval in seconds at which slurmctld is queried at most, whatever the number of scrapers.
FRESH_SECONDS = 10.0
# Time limit of one command, in seconds. A controller that exceeds it is reported.
LIMIT_SECONDS = 8.0
# Node states of sinfo's %T, by their part of the metric's name. Any other state is "other".
NODE_STATES = {
    "allocated": "alloc",
    "completing": "comp",
    "down": "down",
    "drained": "drain",
    "draining": "drain",
    "fail": "fail",
    "failing": "fail",
    "idle": "idle",
    "inval": "inval",
    "maint": "maint",
    "mixed": "mix",
    "planned": "planned",
    "reserved": "resv",
}
JOB_STATES = ("pending", "running", "suspended", "completing")
# Values of sdiag, by name and unit.
SCHEDULER = {
    "Server thread count": ("threads", "Threads of slurmctld."),
    "Agent queue size": ("queue_size", "Messages that slurmctld has yet to send."),
    "DBD Agent queue size": ("dbd_queue_size", "Messages to slurmdbd that wait."),
    "Last cycle": ("last_cycle", "The last round of the main scheduler, in microseconds."),
    "Mean cycle": ("mean_cycle", "The mean round of the main scheduler, in microseconds."),
}
# The generic resources of a job on some of its nodes, in `scontrol --detail show job`. A device may have a type.
ON_NODES = re.compile(r"\bNodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S+)")
DEVICES = re.compile(r"(?:^|,)(?:gpu|neuron)(?::[^:(),]+)?:(\d+)")
# Characters of a job's name in a label. The collector drops a scrape with a label that is too long.
NAME_LENGTH = 100
# A name that no node has, between two lists of nodes.
BETWEEN = "-"


def ask(*command: str) -> list[str]:
    """Return the output lines of a command. Raises OSError or subprocess.SubprocessError."""
    path = f"/opt/slurm/bin:{os.environ.get('PATH', '/usr/bin:/bin')}"
    environment = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "standard"}
    done = subprocess.run(
        ["env", *command], env=environment, check=True, capture_output=True, text=True, timeout=LIMIT_SECONDS
    )
    return done.stdout.splitlines()


def nodes(lines: list[str]) -> list[Family]:
    """Return nodes by state, of lines `name|state|partition`, and their CPUs, `allocated/idle/other/total`."""
    listed = [line.split("|") for line in lines]
    by_state: Counter[tuple[str, str]] = Counter()
    status: Samples = []
    cpus = {}
    for name, state, partition, counts in listed:
        # A suffix marks a node that does not respond, or an upcoming change.
        plain = re.sub(r"[^a-z]+$", "", state.lower())
        by_state[NODE_STATES.get(plain, "other"), partition] += 1
        status.append(({"node": name, "status": plain, "partition": partition}, 1.0))
        # A node of several partitions is listed once for each.
        cpus[name] = [float(count) for count in counts.split("/")]
    partitions = sorted({partition for _, _, partition, _ in listed})
    families: list[Family] = [
        (
            f"slurm_nodes_{state}",
            "gauge",
            f"Nodes of the partition with the state {state}.",
            [({"partition": partition}, float(by_state[state, partition])) for partition in partitions],
        )
        for state in sorted({*NODE_STATES.values(), "other"})
    ]
    totals = [sum(column) for column in zip(*cpus.values(), strict=True)] or [0.0] * 4
    names = ("alloc", "idle", "other", "total")
    families += [
        (f"slurm_cpus_{name}", "gauge", f"CPUs: {name}.", [({}, total)])
        for name, total in zip(names, totals, strict=True)
    ]
    families.append(("slurm_nodes_total", "gauge", "Nodes.", [({}, float(len(cpus)))]))
    families.append(("slurm_node_status", "gauge", "The node has this state in the partition.", status))
    return families


def jobs(lines: list[str]) -> list[Family]:
    """Return jobs by state, account, and partition, of lines `state|account|partition|cpus|…`."""
    total: Counter[str] = Counter()
    of: Counter[tuple[str, str, str]] = Counter()
    cpus: Counter[str] = Counter()
    names: dict[str, set[str]] = {"account": set(), "partition": set()}
    for line in lines:
        state, account, partitions, processors = line.lower().split("|")[:4]
        total[state] += 1
        names["account"].add(account)
        of["account", account, state] += 1
        if state == "running":
            cpus[account] += int(processors)
        # A pending job may be submitted to several partitions.
        for partition in partitions.split(","):
            names["partition"].add(partition)
            of["partition", partition, state] += 1
    families: list[Family] = [
        (f"slurm_jobs_{state}", "gauge", f"Jobs that are {state}.", [({}, float(total[state]))]) for state in JOB_STATES
    ]
    families += [
        (
            f"slurm_{kind}_jobs_{state}",
            "gauge",
            f"Jobs of the {kind} that are {state}.",
            [({kind: name}, float(of[kind, name, state])) for name in sorted(names[kind])],
        )
        for kind in names
        for state in ("pending", "running")
    ]
    running: Samples = [({"account": account}, float(cpus[account])) for account in sorted(names["account"])]
    families.append(("slurm_account_cpus_running", "gauge", "CPUs of the account's running jobs.", running))
    return families


def devices(jobs: list[str], details: list[str], expanded: Callable[[list[str]], list[list[str]]]) -> Family:
    """Return the GPUs or Neuron devices of each running job on each of its nodes.

    `jobs` are lines `state|account|partition|cpus|id|user|qos|name`, and `details` lines of `scontrol show job`.
    `expanded` turns lists of nodes such as `n[1-2]` into the names of the nodes.
    """
    running = {}
    for line in jobs:
        state, account, partition, _, number, user, qos, name = line.split("|", 7)
        if state == "RUNNING":
            of_job = {"job_id": number, "job_name": name[:NAME_LENGTH], "account": account.lower(), "user": user}
            running[number] = name, {**of_job, "qos": qos, "partition": partition.lower()}
    found = []
    for line in details:
        name, labels = running.get(line.partition(" ")[0].removeprefix("JobId="), ("", {}))
        # A user chooses the name, which could have the form of other fields. Further such fields come later.
        own = line.replace(f" JobName={name} ", " ", 1)
        for nodes, gres in ON_NODES.findall(own.partition(" JOB_GRES=")[2].partition(" MinCPUsNode=")[0]):
            if labels and (count := sum(map(int, DEVICES.findall(gres)))):
                found.append((labels, nodes, float(count)))
    names = expanded([nodes for _, nodes, _ in found])
    samples: Samples = [
        ({**labels, "node": node}, count)
        for (labels, _, count), own_nodes in zip(found, names, strict=True)
        for node in own_nodes
    ]
    return "slurm_job_gpus", "gauge", "GPUs or Neuron devices of the running job on the node.", samples


def node_names(lists: list[str]) -> list[list[str]]:
    """Return the nodes of each list. Raises OSError or subprocess.SubprocessError."""
    if not lists:
        return []
    names: list[list[str]] = [[]]
    for name in ask("scontrol", "show", "hostnames", f",{BETWEEN},".join(lists)):
        if name == BETWEEN:
            names.append([])
        else:
            names[-1].append(name)
    return names


def scheduler(lines: list[str]) -> list[Family]:
    """Return sdiag's values of the main scheduler, which come before those of backfill."""
    found: dict[str, float] = {}
    for line in lines:
        name, _, value = (part.strip() for part in line.partition(":"))
        if name in SCHEDULER and value.isdecimal():
            found.setdefault(name, float(value))
    return [
        (f"slurm_scheduler_{name}", "gauge", about, [({}, found[said])])
        for said, (name, about) in SCHEDULER.items()
        if said in found
    ]


def collect() -> list[Family]:
    """Return all metrics. Raises OSError or subprocess.SubprocessError if slurmctld does not answer."""
    # The name comes last, because it may have any character.
    queue = ask("squeue", "--noheader", "--all", "--array", "--format=%T|%a|%P|%C|%A|%u|%q|%j")
    return [
        *nodes(ask("sinfo", "--noheader", "--Node", "--format=%N|%T|%R|%C")),
        *jobs(queue),
        devices(queue, ask("scontrol", "--oneliner", "--detail", "show", "job"), node_names),
        *scheduler(ask("sdiag")),
    ]
