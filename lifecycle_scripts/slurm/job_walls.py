"""Let only the nodes of the jobs on this node connect to the ports of programs: `job_walls.py begin | end`, as root.

Slurm's prolog and epilog run it. The processes of a job trust whoever connects to them: the store of a rendezvous, for
example, unpickles what it reads. The wall refuses connections from other compute nodes of the cluster to ports from
1024 on. It accepts those to slurmd, and all of hosts that are no compute nodes. It does not see traffic of EFA.

https://slurm.schedmd.com/prolog_epilog.html and https://slurm.schedmd.com/slurm.conf.html (read 2026-11-24)
https://manpages.debian.org/bookworm/nftables/nft.8.en.html (read 2026-11-24)
"""

import json
import os
import re
import socket
import subprocess
import sys
import syslog
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin"
# One file for each job on the node, with the addresses of its nodes. A restart of the node deletes them.
JOBS = Path("/run/trainway/job-walls")
# Where Slurm's own packages, HyperPod, and a controller that sends its configuration have it.
CONFIGURATIONS = ("/run/slurm/conf/slurm.conf", "/opt/slurm/etc/slurm.conf", "/etc/slurm/slurm.conf")
SLURMD_PORT = "6818"
TABLE = "trainway_jobs"
SECONDS = 20.0


def main() -> int:
    os.environ["PATH"] = PATH
    kind, job = sys.argv[1], os.environ["SLURM_JOB_ID"]
    file = JOBS / job
    try:
        if kind == "begin":
            JOBS.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.write_text(json.dumps(addresses_of(hostnames(nodes_of_job()))))
        else:
            file.unlink(missing_ok=True)
        of_jobs = {address for each in JOBS.glob("*") for address in json.loads(each.read_text())}
        text = configuration()
        apply(rules(addresses_of(compute_nodes(text)), of_jobs, slurmd_ports(text)))
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        said = getattr(problem, "stderr", None) or problem
        reason = f"the wall around job {job} cannot be changed: {str(said).strip()}"
        print(reason, file=sys.stderr)
        syslog.syslog(syslog.LOG_ERR, reason)
        return 1
    return 0


def nodes_of_job() -> str:
    """Return the nodes of the job in Slurm's notation. Slurm 22.05 has the older name alone. Raises ValueError."""
    found = os.environ.get("SLURM_JOB_NODELIST") or os.environ.get("SLURM_NODELIST")
    if not found:
        raise ValueError("Slurm does not say which nodes the job has")
    return found


def configuration() -> str:
    """Return the text of slurm.conf. Raises FileNotFoundError."""
    candidates = (os.environ.get("SLURM_CONF"), *CONFIGURATIONS)
    found = next((each for each in candidates if each and Path(each).is_file()), None)
    if found is None:
        raise FileNotFoundError(f"slurm.conf is in none of {', '.join(filter(None, candidates))}")
    return Path(found).read_text()


def compute_nodes(text: str) -> "list[str]":
    """Return the addresses of the nodes in slurm.conf, or their names where it has no addresses."""
    found = []
    for line in text.splitlines():
        keys = {name.lower(): value for name, _, value in (word.partition("=") for word in line.split())}
        name = keys.get("nodeaddr") or keys.get("nodehostname") or keys.get("nodename")
        if "nodename" in keys and name and name.upper() != "DEFAULT":
            found += hostnames(name)
    return found


def slurmd_ports(text: str) -> "list[str]":
    """Return the ports of slurmd in slurm.conf, of which nodes can have different ones."""
    ports = re.findall(r"^\s*SlurmdPort\s*=\s*(\d+)", text, re.MULTILINE | re.IGNORECASE)
    ports += re.findall(r"^\s*NodeName=.*\sPort=(\d+)", text, re.MULTILINE | re.IGNORECASE)
    return sorted(set(ports)) or [SLURMD_PORT]


def hostnames(ranges: str) -> "list[str]":
    """Return the names in Slurm's notation, for example n[1-2]. scontrol asks no daemon for this."""
    command = ["scontrol", "show", "hostnames", ranges]
    done = subprocess.run(command, stdout=-1, stderr=-1, text=True, timeout=SECONDS, check=True)
    return done.stdout.split()


def addresses_of(names: Iterable[str]) -> "list[str]":
    """Return the IPv4 addresses of hosts. A name without one belongs to a node that does not run."""
    with ThreadPoolExecutor(32) as pool:
        return sorted({address for found in pool.map(_addresses, names) for address in found})


def _addresses(name: str) -> "list[str]":
    try:
        return [str(each[4][0]) for each in socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)]
    except OSError:
        return []


def rules(nodes: Iterable[str], of_jobs: Iterable[str], ports: Iterable[str]) -> str:
    """Return the rules for nft. They replace the earlier ones at once."""
    refused = sorted(set(nodes) - set(of_jobs))
    others = f"elements = {{ {', '.join(refused)} }}" if refused else ""
    return f"""
table inet {TABLE} {{}}
delete table inet {TABLE}
table inet {TABLE} {{
  set others {{
    type ipv4_addr
    {others}
  }}
  chain input {{
    type filter hook input priority filter; policy accept;
    iif lo accept
    ct state established,related accept
    tcp dport {{ {", ".join(ports)} }} accept
    ip saddr @others tcp dport 1024-65535 reject with tcp reset
    ip saddr @others udp dport 1024-65535 drop
  }}
}}
"""


def apply(text: str) -> None:
    """Give the rules to the kernel. Raises CalledProcessError."""
    subprocess.run(["nft", "--file", "-"], input=text, stdout=-1, stderr=-1, text=True, timeout=SECONDS, check=True)


if __name__ == "__main__":
    sys.exit(main())
