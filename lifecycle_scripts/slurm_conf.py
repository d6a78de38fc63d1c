"""Write Slurm's configuration of a cluster that the platform provisions: `slurm_conf.py DIRECTORY SHARED`.

It reads nodes and parameters from standard input, as `node_facts.py --cluster` prints them. SHARED is a directory that
all controllers see. It prints the files that changed, and nothing without changes. The blocks of slurm_settings.py stay
in slurm.conf. Controllers read the files. All other nodes fetch them from a controller.
https://slurm.schedmd.com/slurm.conf.html, https://slurm.schedmd.com/configless_slurm.html (read 2026-11-22)
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

Node = dict[str, Any]

STATE = "/var/spool/slurmctld"
SETTINGS = {
    "SlurmUser": "slurm",
    "AuthType": "auth/munge",
    "SlurmctldParameters": "enable_configless",
    "SlurmctldPidFile": "/run/slurmctld.pid",
    "SlurmdPidFile": "/run/slurmd.pid",
    "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
    "SlurmdLogFile": "/var/log/slurm/slurmd.log",
    "SlurmdSpoolDir": "/var/spool/slurmd",
    "SelectType": "select/cons_tres",
    # Jobs share a node by cores. Memory is not counted: a job without a memory request would get all of it, and block
    # the node.
    "SelectTypeParameters": "CR_Core",
    # All processes of a job stay in its cgroup, so that all of them end with the job.
    "ProctrackType": "proctrack/cgroup",
    "TaskPlugin": "task/cgroup,task/affinity",
    # torchrun starts the processes of a node, not MPI.
    "MpiDefault": "none",
    # A replaced or restarted node takes jobs again when it is healthy, without a command.
    "ReturnToService": "2",
    "JobRequeue": "1",
    # A job's nodes wait for a dead one until it is given up. The default is five minutes.
    "SlurmdTimeout": "120",
    # A backup takes over after the controller has not answered for this time (default 120).
    "SlurmctldTimeout": "60",
    # Time for a process that waits for a GPU or the file system. After that, the node is drained (default 60).
    "UnkillableStepTimeout": "180",
    # New nodes, and those of types that the platform does not know, register themselves with their resources. Slurm
    # 22.05 reaches such nodes only without a tree: https://slurm.schedmd.com/dynamic_nodes.html (read 2026-11-22)
    "MaxNodeCount": "4096",
    "TreeWidth": "65533",
}
# Share of EC2's stated memory that remains after the kernel's own use, as in AWS ParallelCluster.
# https://github.com/aws/aws-parallelcluster-cookbook/blob/develop/cookbooks/aws-parallelcluster-slurm/attributes/slurm_attributes.rb
# (read 2026-11-22)
MEMORY_SHARE = 0.95
MANAGED = re.compile(r"\n# Begin of what Trainway writes.*?\n# End of what Trainway writes[^\n]*\n", re.DOTALL)


def slurm_conf(nodes: list[Node], parameters: dict[str, Any], cluster: str, shared: str) -> str:
    """Return slurm.conf without the additions of slurm_settings.py."""
    types = known_types(parameters)
    controllers = [node for node in nodes if node["role"] == "controller"]
    compute = [node for node in nodes if node["role"] == "compute"]
    lines = [f"ClusterName={cluster}"]
    lines += [f"SlurmctldHost={node['name']}({node['address']})" for node in controllers]
    lines += [f"{key}={value}" for key, value in SETTINGS.items()]
    # A backup continues from the state of the controller, so both use a shared directory.
    lines.append(f"StateSaveLocation={shared}/state" if len(controllers) > 1 else f"StateSaveLocation={STATE}")
    if parameters.get("slurm_accounts") or (parameters.get("slurm") or {}).get("accounting_database"):
        lines += accounting(controllers)
    if kinds := sorted({facts["gres"]["name"] for facts in types.values() if facts.get("gres")}):
        lines.append(f"GresTypes={','.join(kinds)}")
    if topology_conf(nodes, parameters):
        lines.append("TopologyPlugin=topology/tree")
    lines += [node_line(node, types[node["type"]]) for node in compute if node["type"] in types]
    return "\n".join([*lines, *partitions(compute)]) + "\n"


def known_types(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the facts about the instance types of the nodes, by HyperPod's name."""
    return dict((parameters.get("slurm") or {}).get("instance_types") or {})


def accounting(controllers: list[Node]) -> list[str]:
    """Return the lines of a cluster whose controllers run slurmdbd."""
    keys = ("AccountingStorageHost", "AccountingStorageBackupHost")
    hosts = [f"{key}={node['address']}" for key, node in zip(keys, controllers, strict=False)]
    return ["AccountingStorageType=accounting_storage/slurmdbd", *hosts, "JobAcctGatherType=jobacct_gather/linux"]


def node_line(node: Node, facts: dict[str, Any]) -> str:
    """Return the line of a node, from the facts about its type."""
    words = [f"NodeName={node['name']}", f"NodeAddr={node['address']}", f"CPUs={facts['cpus']}"]
    words.append(f"RealMemory={int(facts['memory_mib'] * MEMORY_SHARE)}")
    if gres := facts.get("gres"):
        words.append(f"Gres={gres['name']}:{gres['type']}:{gres['count']}")
    return " ".join([*words, f"Feature={node['group']}", "State=UNKNOWN"])


def partitions(compute: list[Node]) -> list[str]:
    """Return a partition for each group. The first one is the default."""
    lines = []
    for index, group in enumerate(dict.fromkeys(node["group"] for node in compute)):
        default = "YES" if index == 0 else "NO"
        lines.append(f"NodeSet={group}-nodes Feature={group}")
        lines.append(f"PartitionName={group} Nodes={group}-nodes Default={default} MaxTime=INFINITE State=UP")
    return lines


def gres_conf(nodes: list[Node], parameters: dict[str, Any]) -> str:
    """Return gres.conf: the devices of each node. Each device is named, so that a lost one is noticed."""
    types, lines = known_types(parameters), []
    for node in nodes:
        gres = types.get(node["type"], {}).get("gres") if node["role"] == "compute" else None
        if gres:
            device = f"{gres['device']}[0-{gres['count'] - 1}]" if gres["count"] > 1 else f"{gres['device']}0"
            lines.append(f"NodeName={node['name']} Name={gres['name']} Type={gres['type']} File={device}")
    return "".join(f"{line}\n" for line in lines)


def topology_conf(nodes: list[Node], parameters: dict[str, Any]) -> str:
    """Return topology.conf with EC2's network nodes as switches. Empty unless every node's place is known.

    https://slurm.schedmd.com/topology.conf.html (read 2026-11-22)
    """
    types = known_types(parameters)
    compute = [node for node in nodes if node["role"] == "compute"]
    if not compute or not all(node["place"] and node["type"] in types for node in compute):
        return ""
    below: dict[str, set[str]] = {}
    leaves: dict[str, list[str]] = {}
    for node in compute:
        outer, middle, inner = node["place"]
        below.setdefault(outer, set()).add(middle)
        below.setdefault(middle, set()).add(inner)
        leaves.setdefault(inner, []).append(node["name"])
    # Jobs can only span nodes below one switch.
    outermost = sorted({node["place"][0] for node in compute})
    lines = [f"SwitchName={leaf} Nodes={','.join(names)}" for leaf, names in sorted(leaves.items())]
    lines += [f"SwitchName={switch} Switches={','.join(sorted(others))}" for switch, others in sorted(below.items())]
    if len(outermost) > 1:
        lines.append(f"SwitchName=all Switches={','.join(outermost)}")
    return "".join(f"{line}\n" for line in lines)


CGROUP_CONF = """CgroupPlugin=autodetect
ConstrainCores=yes
ConstrainDevices=yes
"""


def files(nodes: list[Node], parameters: dict[str, Any], cluster: str, shared: str) -> dict[str, str]:
    """Return every file's text by its name. A file without text must not exist."""
    return {
        "slurm.conf": slurm_conf(nodes, parameters, cluster, shared),
        "gres.conf": gres_conf(nodes, parameters),
        "cgroup.conf": CGROUP_CONF,
        "topology.conf": topology_conf(nodes, parameters),
    }


def write(path: Path, text: str) -> bool:
    """Replace the file's content atomically, keeping the blocks of slurm_settings.py. Return whether it changed."""
    old = path.read_text() if path.exists() else ""
    new = text + "".join(MANAGED.findall(old))
    if new == old:
        return False
    if not new:
        path.unlink()
        return True
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(new)
    beside.chmod(0o644)
    beside.replace(path)
    return True


def main() -> int:
    directory, shared, given = Path(sys.argv[1]), sys.argv[2], json.load(sys.stdin)
    made = files(given["nodes"], given["parameters"], os.environ["CLUSTER_NAME"], shared)
    for name, text in made.items():
        if write(directory / name, text):
            print(f"wrote {directory / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
