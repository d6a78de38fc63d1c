"""Let only nodes and users of jobs connect to the ports of jobs: `job_walls.py begin | end | start | check`, as root.

Slurm's prolog runs `begin`, its epilog `end`, and systemd `start`, before the first job. `check` only tells whether the
node can have the rules. The processes of a job trust whoever connects to them: the store of a rendezvous, for example,
unpickles what it reads. The rules concern ports from 1024 on:

- The node accepts connections of the nodes of its jobs only, except to slurmd and to exporters of metrics.
- A user of the node connects to the nodes of the user's own jobs only, among the compute nodes of the cluster.

They do not see traffic of EFA. Lustre, SSH, and NFS 4.2 have no listening port from 1024 on.

https://slurm.schedmd.com/prolog_epilog.html (read 2026-11-24), https://slurm.schedmd.com/slurm.conf.html and
https://slurm.schedmd.com/network.html (read 2026-11-29)
https://manpages.debian.org/bookworm/nftables/nft.8.en.html (read 2026-11-24)
"""

import fcntl
import ipaddress
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import syslog
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin"
# One file for each job on the node, with the user and the addresses of the nodes. A restart of the node deletes them.
JOBS = Path("/run/trainway/job-walls")
# Where Slurm's own packages, HyperPod, and a controller that sends its configuration have it.
CONFIGURATIONS = ("/run/slurm/conf/slurm.conf", "/opt/slurm/etc/slurm.conf", "/etc/slurm/slurm.conf")
SLURMD_PORT = "6818"
# The exporters of lifecycle_scripts/steps/50-exporters.sh on compute nodes, and that of a run. They only print metrics.
METRICS_PORTS = ("9100", "9109", "9400", "9464")
# HyperPod's agent has a network namespace of its own on each node. This is the node's end of the cable to the agent.
# https://github.com/awslabs/awsome-distributed-ai/blob/main/micro-benchmarks/nccl-tests/nccl-tests.Dockerfile
# (read 2026-11-29)
AGENT = "veth_def_agent"
# The ports of srun where slurm.conf has no SrunPortRange.
LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
TABLE = "trainway_jobs"
SECONDS = 20.0
REMEDY = "use an image with the package nftables and a kernel that supports it, or set slurm.job_walls to false"


class SlurmHosts(NamedTuple):
    """The hosts and ports of slurm.conf: the address of each compute node by its name, the controllers, and ports."""

    nodes: "dict[str, str]"
    controllers: "list[str]"
    slurmd_ports: "list[str]"
    srun_ports: str


class JobNodes(NamedTuple):
    """A job on this node: the user ID, and the addresses of all nodes of the job."""

    user: int
    addresses: "list[str]"


def main() -> int:
    os.environ["PATH"] = PATH
    what = "the walls around jobs cannot be set up"
    try:
        if sys.argv[1] == "check":
            table = f"{TABLE}_check"
            apply(f"{rules(SlurmHosts({}, [], [SLURMD_PORT], SLURMD_PORT), [], [], table)}delete table inet {table}\n")
        else:
            if sys.argv[1] != "start":
                what = f"the walls around job {os.environ['SLURM_JOB_ID']} cannot be changed"
            change(sys.argv[1])
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        said = getattr(problem, "stderr", None) or problem
        reason = f"{what}: {' '.join(str(said).split())}{f'; {REMEDY}' if sys.argv[1] == 'check' else ''}"
        print(reason, file=sys.stderr)
        syslog.syslog(syslog.LOG_ERR, reason)
        return 1
    return 0


def change(kind: str) -> None:
    """Set the rules at the start of a job (`begin`), at its end (`end`), or before the first job (`start`)."""
    cluster = read_cluster(configuration())
    job = job_of_environment(cluster) if kind == "begin" else None
    nodes = addresses_of(cluster.nodes.values())
    JOBS.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Two jobs can begin at once, and the rules must be those of the last file.
    with JOBS.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kind != "start":
            file = JOBS / os.environ["SLURM_JOB_ID"]
            if job:
                file.write_text(json.dumps(job))
            else:
                file.unlink(missing_ok=True)
        try:
            apply(rules(cluster, nodes, [JobNodes(*json.loads(each.read_text())) for each in JOBS.glob("*")]))
        except (OSError, subprocess.SubprocessError):
            # Slurm starts such a job on other nodes.
            if job:
                file.unlink()
            raise


def job_of_environment(cluster: SlurmHosts) -> JobNodes:
    """Return the job that Slurm's variables describe. Raises ValueError."""
    # Slurm 22.05 has the older name alone.
    ranges = os.environ.get("SLURM_JOB_NODELIST") or os.environ.get("SLURM_NODELIST")
    user = os.environ.get("SLURM_JOB_UID", "")
    if not ranges or not user.isdecimal():
        raise ValueError("Slurm does not say which nodes and which user the job has")
    names = hostnames(ranges)
    # The name of a node may have an IPv6 address that slurm.conf does not list.
    found = {name: addresses_of({name, cluster.nodes.get(name, name)}) for name in names}
    if unknown := [name for name, addresses in found.items() if not addresses]:
        # The nodes of the job would all refuse it, and all be drained.
        said = f"connections from {', '.join(unknown)} are refused, because the address is not known"
        syslog.syslog(syslog.LOG_ERR, f"{said}: `getent hosts {unknown[0]}` must print it")
    return JobNodes(int(user), sorted({address for addresses in found.values() for address in addresses}))


def configuration() -> str:
    """Return the text of slurm.conf and of the files that it includes. Raises FileNotFoundError."""
    candidates = (os.environ.get("SLURM_CONF"), *CONFIGURATIONS)
    found = next((each for each in candidates if each and Path(each).is_file()), None)
    if found is None:
        raise FileNotFoundError(f"slurm.conf is in none of {', '.join(filter(None, candidates))}")
    text = Path(found).read_text()
    included = [Path(found).parent / name for name in re.findall(r"(?im)^\s*include\s+(\S+)", text)]
    return "\n".join([text, *(each.read_text() for each in included if each.is_file())])


def read_cluster(text: str) -> SlurmHosts:
    """Return the hosts and ports in the text of slurm.conf."""
    nodes: dict[str, str] = {}
    for line in text.splitlines():
        keys = {name.lower(): value for name, _, value in (word.partition("=") for word in line.split())}
        if keys.get("nodename", "DEFAULT").upper() != "DEFAULT":
            names = hostnames(keys["nodename"])
            where = keys.get("nodeaddr") or keys.get("nodehostname")
            nodes.update(zip(names, hostnames(where) if where else names, strict=False))
    # NAME(ADDRESS), or the name alone.
    hosts = re.findall(r"(?im)^\s*SlurmctldHost\s*=\s*([^\s(]+)(?:\(([^)\s]+)\))?", text)
    controllers = [address or name for name, address in hosts]
    controllers += re.findall(r"(?im)^\s*SlurmctldAddr\s*=\s*(\S+)", text)
    # Nodes can have different ports.
    slurmd = re.findall(r"(?im)^\s*SlurmdPort\s*=\s*(\d+)", text)
    slurmd += re.findall(r"(?im)^\s*NodeName=.*\sPort=(\d+)", text)
    srun = re.findall(r"(?im)^\s*SrunPortRange\s*=\s*(\d+-\d+)", text)
    ports = srun[-1] if srun else "-".join(LOCAL_PORTS.read_text().split())
    return SlurmHosts(nodes, controllers, sorted(set(slurmd)) or [SLURMD_PORT], ports)


def hostnames(ranges: str) -> "list[str]":
    """Return the names in Slurm's notation, for example n[1-2]. scontrol asks no daemon for this."""
    if "[" not in ranges:
        return ranges.split(",")
    command = ["scontrol", "show", "hostnames", ranges]
    done = subprocess.run(command, stdout=-1, stderr=-1, text=True, timeout=SECONDS, check=True)
    return done.stdout.split()


def addresses_of(names: Iterable[str]) -> "list[str]":
    """Return the IPv4 and IPv6 addresses of hosts. A node that does not run may have no address, which is no error."""
    with ThreadPoolExecutor(32) as pool:
        return sorted({address for found in pool.map(_addresses, set(names)) for address in found})


def _addresses(name: str) -> "list[str]":
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    except OSError:
        return []
    # /etc/hosts of a node may call the node itself 127.0.1.1. A link-local address belongs to no host alone.
    return [each for each in found if "%" not in each and not ipaddress.ip_address(each).is_loopback]


def rules(cluster: SlurmHosts, nodes: Iterable[str], jobs: Iterable[JobNodes], table: str = TABLE) -> str:
    """Return the rules for nft. They replace the earlier ones at once.

    Only the first packet of a TCP connection is judged. Conntrack loses sight of long connections, and an answer of S3
    must not be taken for a stranger.
    """
    jobs = list(jobs)
    of_jobs = {address for job in jobs for address in job.addresses}
    of_users = {(job.user, address) for job in jobs for address in job.addresses}
    controllers = addresses_of(cluster.controllers)
    slurmd, open_ports = ", ".join(cluster.slurmd_ports), ", ".join([*cluster.slurmd_ports, *METRICS_PORTS])
    return f"""
table inet {table} {{}}
delete table inet {table}
table inet {table} {{
{_sets("of_jobs", "", ((each, each) for each in of_jobs))}\
{_sets("of_users", "uid . ", ((each, f"{user} . {each}") for user, each in of_users))}\
{_sets("controllers", "", ((each, each) for each in controllers))}\
{_sets("nodes", "", ((each, each) for each in of_jobs | set(nodes)))}\
  chain input {{
    type filter hook input priority filter; policy accept;
    iif lo accept
    iifname {AGENT} accept
    tcp dport {{ {open_ports} }} accept
    ip saddr @of_jobs_4 accept
    ip6 saddr @of_jobs_6 accept
    ip saddr @controllers_4 tcp dport {cluster.srun_ports} accept
    ip6 saddr @controllers_6 tcp dport {cluster.srun_ports} accept
    tcp dport 1024-65535 tcp flags & (syn | ack) == syn reject with tcp reset
    udp dport 1024-65535 ct direction original drop
  }}
  chain forward {{
    type filter hook forward priority filter; policy accept;
    ct status dnat ct direction original meta l4proto {{ tcp, udp }} ct original proto-dst 1024-65535 jump published
  }}
  chain published {{
    ip saddr @of_jobs_4 accept
    ip6 saddr @of_jobs_6 accept
    meta l4proto tcp reject with tcp reset
    reject
  }}
  chain output {{
    type filter hook output priority filter; policy accept;
    oif lo accept
    meta skuid 0 accept
    tcp dport {{ {slurmd} }} accept
    meta skuid . ip daddr @of_users_4 accept
    meta skuid . ip6 daddr @of_users_6 accept
    ip daddr @nodes_4 jump to_nodes
    ip6 daddr @nodes_6 jump to_nodes
  }}
  chain to_nodes {{
    tcp dport 1024-65535 tcp flags & (syn | ack) == syn reject with tcp reset
    udp dport 1024-65535 ct direction original reject
  }}
}}
"""


def _sets(name: str, before: str, elements: "Iterable[tuple[str, str]]") -> str:
    """Return the text of two nft sets, one for each IP version. An element is an address and its text in nft."""
    found = sorted(elements)
    lines = []
    for version in (4, 6):
        texts = [text for address, text in found if ipaddress.ip_address(address).version == version]
        listed = f" elements = {{ {', '.join(texts)} }};" if texts else ""
        lines.append(f"  set {name}_{version} {{ type {before}ipv{version}_addr;{listed} }}\n")
    return "".join(lines)


def apply(text: str) -> None:
    """Set rules in the kernel with nft. Raises OSError or SubprocessError."""
    if not shutil.which("nft"):
        raise FileNotFoundError("there is no nft")
    subprocess.run(["nft", "--file", "-"], input=text, stdout=-1, stderr=-1, text=True, timeout=SECONDS, check=True)


if __name__ == "__main__":
    sys.exit(main())
