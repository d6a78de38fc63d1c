"""Nodes as HyperPod makes them, before a lifecycle script has run: systemd in containers, on a network of their own.

A node's disk is an overlay on the one that scripts/install_nodes makes, kept in memory. All nodes of a lab, what they
mount and their network are in namespaces of one process, the gateway: they are gone when it is, which is at the end of
the `with` block, with the test's process, and after two hours in any case.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.lifecycle_scripts.cgroups import is_unified, own_cgroups, remove_cgroups
from tests.lifecycle_scripts.cluster_documents import default_parameters, resource_config

Result = TypeVar("Result")

CHECKOUT = Path(__file__).parents[2]
SCRIPTS = CHECKOUT / "lifecycle_scripts"
INSTALL = CHECKOUT / "scripts" / "install_nodes"
STAND_INS = Path(__file__).with_name("stand_ins")
GATEWAY = Path(__file__).with_name("gateway.py")
PROGRAMS = ("ip", "nft", "nsenter", "setpriv", "systemd-nspawn", "unshare")

NETWORK, ROUTER, FIRST = "10.81.0", 1, 10
LONGEST_SECONDS = 7200
BOOT_SECONDS = 300
# Where the platform's scripts and HyperPod's description of the cluster are on a node.
DOWNLOADED, RESOURCE_CONFIG = "/opt/ml/lifecycle", "/opt/ml/config/resource_config.json"
ENVIRONMENT = {
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
# Whatever is meant for beyond the network is thrown away, and its address remembered.
FIREWALL = f"""
table inet lab {{
  set outside {{ type ipv4_addr; flags dynamic; size 4096; }}
  chain prerouting {{
    type filter hook prerouting priority 0;
    iifname br0 ip daddr != {{ {NETWORK}.0/24, 224.0.0.0/4, 255.255.255.255 }} add @outside {{ ip daddr }} drop
  }}
}}
"""
# Units that come and go: sessions, one-off scopes, and what a service has only while it starts.
PASSING = re.compile(r"\.(scope|device)$|^run-credentials-")
# What changes on a node although nobody changes it.
RESTLESS = (
    "etc/.pwd.lock",
    "opt/ml",
    "run",
    "tmp",
    "var/cache",
    # The seed of its random numbers, which munged writes as it ends.
    "var/lib/munge",
    "var/lib/mysql",
    "var/lib/systemd",
    # When which step ran.
    "var/lib/trainway/provisioning.json",
    "var/log",
    "var/spool",
    "var/tmp",
)


def missing() -> str | None:
    """Why no nodes can be started here; None if they can. Continuous integration skips nothing."""
    if "CI" in os.environ:
        return None
    if os.geteuid():
        return "only root may boot nodes"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"not installed: {', '.join(absent)}; scripts/install_nodes installs them"
    return None if disk().is_dir() else f"{disk()} is absent; scripts/install_nodes makes it"


@functools.cache
def disk() -> Path:
    """Where the disk is that nodes boot from."""
    return Path(subprocess.run([INSTALL, "--where"], check=True, capture_output=True, text=True).stdout.strip())


@dataclass
class Node:
    """One node; `root` is its disk as this machine sees it, whether it runs or not, without what is mounted on it."""

    lab: Lab
    name: str
    group: str
    address: str
    container: subprocess.Popen[bytes] | None = None
    leader: int = 0

    @property
    def hostname(self) -> str:
        """As EC2 names an instance."""
        return f"ip-{self.address.replace('.', '-')}"

    @property
    def place(self) -> Path:
        """What the lab keeps of the node, in the lab's namespace."""
        return Path("/run/nodes") / self.name

    @property
    def root(self) -> Path:
        return self.lab.seen(self.place / "root")

    def inside(self, *command: str, **environment: str) -> list[str]:
        """The command that runs another one there, with nothing of this process's environment."""
        variables = [f"{name}={value}" for name, value in (ENVIRONMENT | environment).items()]
        return ["nsenter", f"--target={self.leader}", "--all", "--", "env", "-i", "-C", "/", *variables, *command]

    def run(
        self, *command: str, check: bool = True, timeout: float = 300, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """What a command there has said and how it ended; status 124 after `timeout` seconds."""
        limited = ["timeout", "--kill-after=5", str(timeout), *command]
        done = subprocess.run(
            self.inside(*limited, **environment), stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert done.returncode == 0 or not check, f"{self.name}: {' '.join(command)}: {done.stdout}{done.stderr}"
        return done

    def provision(
        self, entry: str = "on_create.sh", *, timeout: float = 500, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs an entry point as HyperPod does. It may fail."""
        there = {"SAGEMAKER_RESOURCE_CONFIG_PATH": RESOURCE_CONFIG, "FAILURE_PAUSE_SECONDS": "0", **environment}
        return self.run("bash", f"{DOWNLOADED}/{entry}", check=False, timeout=timeout, **there)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Puts a file on the node's disk."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def cut_power(self) -> None:
        """The node is gone without a word; its disk stays."""
        os.kill(self.leader, 9)
        assert self.container is not None
        self.container.wait(120)
        self.container = None

    def boot(self) -> None:
        """Returns once systemd has started everything; raises AssertionError with the units that failed."""
        self._start()
        end = time.monotonic() + BOOT_SECONDS
        while (state := self._state()) not in ("running", "degraded"):
            assert self.container is not None
            died = self.container.poll() is not None
            if died or time.monotonic() > end:
                console = (self.lab.directory / f"{self.name}.console").read_text(errors="replace")
                raise TimeoutError(f"{self.name} is {'dead' if died else state or 'silent'}: {console[-2000:]}")
            time.sleep(0.1)
        failed = self.run("systemctl", "--failed", "--no-legend", "--plain").stdout
        assert state == "running", f"{self.name}: {failed}"
        # A unit that systemd leaves out, because units are ordered in a cycle, has not failed.
        targets = ("local-fs.target", "sysinit.target", "multi-user.target")
        reached = self.run("systemctl", "is-active", *targets, check=False).stdout.split()
        assert reached == ["active"] * len(targets), f"{self.name}: {dict(zip(targets, reached, strict=True))}"

    def _state(self) -> str:
        self.leader = self.leader or self._find_leader()
        if not self.leader:
            return ""
        done = self.run("systemctl", "is-system-running", "--wait", check=False, timeout=BOOT_SECONDS)
        return done.stdout.strip()

    def _find_leader(self) -> int:
        """The first process of the node's PID namespace: systemd, once it is that."""
        assert self.container is not None
        waiting = [self.container.pid]
        while waiting:
            pid = waiting.pop()
            with suppress(OSError):
                task = Path(f"/proc/{pid}")
                waiting += map(int, (task / f"task/{pid}/children").read_text().split())
                status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
                # This machine's number, the lab's and the node's own.
                if (
                    len(numbers := status["NSpid"].split()) == 3
                    and numbers[-1] == "1"
                    and status["Name"].strip() == "systemd"
                ):
                    return pid
        return 0

    def _start(self) -> None:
        assert self.container is None
        self.leader = 0
        lab, place = self.lab, self.place
        binds = [f"--bind={lab.shared}:/opt/outside/fsx", f"--bind-ro={lab.s3}:/opt/outside/s3"]
        # So that a job can train there: this checkout and its Python, where they are here.
        # A node has the operating system's Python itself, and a /usr of its own.
        python = [Path(each) for each in (sys.prefix, sys.base_prefix) if each != "/usr"]
        binds += [f"--bind-ro={path}" for path in dict.fromkeys((CHECKOUT, *python))]
        nspawn = [
            *("systemd-nspawn", "--quiet", "--boot", f"--directory={place}/root", f"--machine={self.name}"),
            *(f"--hostname={self.hostname}", f"--network-namespace-path=/run/netns/{self.name}", *binds),
            *("--register=no", "--keep-unit", "--resolv-conf=off", "--timezone=off", "--link-journal=no"),
            *("--capability=all", "--console=pipe"),
        ]
        joins = "".join(f"echo 0 >{cgroup}/cgroup.procs; " for cgroup in lab.cgroups(self.name))
        with (lab.directory / f"{self.name}.console").open("ab") as console:
            self.container = subprocess.Popen(
                ["sh", "-c", f'set -e; {joins}exec "$@"', "-", *lab.within(*nspawn)],
                env={
                    "PATH": ENVIRONMENT["PATH"],
                    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": str(int(is_unified())),
                    "SYSTEMD_SECCOMP": "0",
                },
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )

    def snapshot(self, *, times: bool = False) -> dict[str, str]:
        """What the node has that its image has not: files with mode, owner and content (and, if asked, the time of the
        last change), and the units that are enabled or active. Without logs, caches and the daemons' own state, and
        without this node's own name and address, so that nodes which are alike have the same."""
        upper = self.lab.seen(self.place / "disk" / "upper")
        found = {}
        for path in sorted(upper.rglob("*")):
            name = path.relative_to(upper).as_posix()
            if name.startswith(tuple(f"{restless}/" for restless in RESTLESS)) or name in RESTLESS:
                continue
            status = path.lstat()
            content = ""
            if stat.S_ISREG(status.st_mode):
                anonymous = path.read_bytes().replace(self.hostname.encode(), b"HOSTNAME")
                content = hashlib.sha256(anonymous.replace(self.address.encode(), b"ADDRESS")).hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = str(path.readlink())
            when = f" {status.st_mtime_ns}" if times and not stat.S_ISDIR(status.st_mode) else ""
            found[f"/{name}"] = f"{stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid} {content}{when}"
        for kind, state in (("unit-files", "enabled"), ("units", "active")):
            listed = self.run("systemctl", f"list-{kind}", f"--state={state}", "--no-legend", "--plain").stdout
            units = [line.split()[0] for line in listed.splitlines() if line.split()]
            found |= {unit: state for unit in units if not PASSING.search(unit)}
        return found


@dataclass
class Lab:
    """Nodes by their names. What is below `shared` is on every node that mounts Lustre; `s3` holds a directory for
    each bucket, which the nodes' `aws s3 cp` reads."""

    directory: Path
    gateway: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    @property
    def shared(self) -> Path:
        return self.directory / "fsx"

    @property
    def s3(self) -> Path:
        return self.directory / "s3"

    def seen(self, path: Path) -> Path:
        """A path of the lab's mount namespace, from here."""
        return Path(f"/proc/{self.gateway}/root") / path.relative_to("/")

    def within(self, *command: str) -> list[str]:
        """The command that runs another one in the lab's namespaces, outside of its nodes."""
        return ["nsenter", f"--target={self.gateway}", "--mount", "--net", "--pid", "--", *command]

    def cgroups(self, node: str) -> list[Path]:
        """The cgroup of a node in each hierarchy: nodes that share one disturb each other."""
        return [cgroup / node for cgroup in own_cgroups(f"trainway-{self.gateway}")]

    def asked_outside(self) -> list[str]:
        """Every name and address beyond the lab that a node has asked for."""
        listed = subprocess.run(
            self.within("nft", "--json", "list", "set", "inet", "lab", "outside"), check=True, capture_output=True
        ).stdout
        sets = [entry["set"] for entry in json.loads(listed)["nftables"] if "set" in entry]
        # The metadata service of a node, where a job that writes its state to the bucket gets the role of the node.
        own = {"169.254.169.254"}
        # A VPC's own resolver knows its instances, by name and by address.
        known = own | {name for node in self.nodes.values() for name in (node.name, node.hostname)}
        known |= {ipaddress.ip_address(node.address).reverse_pointer for node in self.nodes.values()}
        return sorted({*sets[0].get("elem", []), *(self.directory / "asked").read_text().split()} - known)

    def provision(
        self, *names: str, entry: str = "on_create.sh", timeout: float = 500, **environment: str
    ) -> dict[str, subprocess.CompletedProcess[str]]:
        """Provisions these nodes at once, or all: as HyperPod does with a new cluster."""
        return at_once(
            lambda name: self[name].provision(entry, timeout=timeout, **environment), names or tuple(self.nodes)
        )


def at_once(act: Callable[[str], Result], names: Sequence[str]) -> dict[str, Result]:
    """What `act` returns for each name, all of them at the same time."""
    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(act, names), strict=True))


@contextmanager
def nodes(
    directory: Path,
    groups: Mapping[str, Sequence[str]],
    *,
    parameters: Mapping[str, Any] | None = None,
    types: Mapping[str, str] | None = None,
    off: Sequence[str] = (),
    disk_megabytes: int = 512,
) -> Iterator[Lab]:
    """Booted nodes by instance group, to which HyperPod has downloaded the lifecycle scripts and which have run none.

    `parameters` are changes to the parameters.json of a Slurm platform whose groups are `controller` and, if there is
    one, `login`; `types` gives instance types by group. Nodes named in `off` are not booted. `directory` keeps what the
    consoles say, the shared file system and the buckets.
    """
    lab = Lab(directory)
    for folder in (directory, lab.shared, lab.s3):
        folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        for abandoned in {path.name for own in own_cgroups("any") for path in own.parent.glob("trainway-*")}:
            if not Path("/proc", abandoned.removeprefix("trainway-")).exists():
                remove_cgroups(abandoned)
        gateway = _start_gateway(lab)
        stack.callback(remove_cgroups, f"trainway-{lab.gateway}")
        stack.callback(_end, gateway)
        number = FIRST
        for group, names in groups.items():
            for name in names:
                lab.nodes[name] = Node(lab, name, group, f"{NETWORK}.{number}")
                number += 1
        config = resource_config([(node.group, node.address) for node in lab.nodes.values()], types or {})
        document = json.dumps(default_parameters(groups) | dict(parameters or {}), indent=2)
        for node in lab.nodes.values():
            _plug_in(node, disk_megabytes)
            _furnish(node)
            node.write(RESOURCE_CONFIG, json.dumps(config, indent=2))
            shutil.copytree(SCRIPTS, node.root / DOWNLOADED.lstrip("/"), ignore=shutil.ignore_patterns("__pycache__"))
            node.write(f"{DOWNLOADED}/parameters.json", document)
        at_once(lambda name: lab[name].boot(), [name for name in lab.nodes if name not in off])
        yield lab


def _start_gateway(lab: Lab) -> subprocess.Popen[bytes]:
    script = f"""
set -e
mount --make-rprivate /
mount -t tmpfs run /run
mkdir -p /run/netns /run/nodes
ip link set lo up
ip link add br0 type bridge
ip address add {NETWORK}.{ROUTER}/24 dev br0
ip link set br0 up
nft -f - <<'RULES'
{FIREWALL}
RULES
exec {sys.executable} {GATEWAY} {NETWORK}.{ROUTER} {lab.directory}/asked {LONGEST_SECONDS}
"""
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script]
    with (lab.directory / "gateway.log").open("wb") as log:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", *unshare],
            env={"PATH": ENVIRONMENT["PATH"]},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    end = time.monotonic() + 120
    while not (lab.directory / "asked").exists():
        if process.poll() is not None or time.monotonic() > end:
            raise TimeoutError(f"the gateway does not start: {(lab.directory / 'gateway.log').read_text()}")
        time.sleep(0.02)
    lab.gateway = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _plug_in(node: Node, megabytes: int) -> None:
    """Gives the node its disk, its place in the network and its cgroups."""
    image, place, name = disk(), node.place, node.name
    script = f"""
set -e
mkdir -p {place}/disk {place}/root
mount -t tmpfs -o size={megabytes}m,mode=755 disk {place}/disk
mkdir {place}/disk/upper {place}/disk/work
mount -t overlay -o lowerdir={image},upperdir={place}/disk/upper,workdir={place}/disk/work disk {place}/root
ip netns add {name}
ip link add {name} type veth peer name eth0 netns {name}
ip link set {name} master br0 up
ip -n {name} address add {node.address}/24 dev eth0
ip -n {name} link set lo up
ip -n {name} link set eth0 up
ip -n {name} route add default via {NETWORK}.{ROUTER}
"""
    done = subprocess.run(node.lab.within("bash", "-c", script), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for cgroup in node.lab.cgroups(name):
        for made in (cgroup.parent, cgroup):
            made.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (made / file).exists() and not is_unified():
                    (made / file).write_text((made.parent / file).read_text())


def _furnish(node: Node) -> None:
    """What a first boot does on EC2, and stand-ins for what cannot be here."""
    known = [f"{each.address}\t{each.hostname} {each.name}" for each in node.lab.nodes.values()]
    node.write("/etc/hosts", "\n".join(["127.0.0.1\tlocalhost", *known]) + "\n")
    node.write("/etc/hostname", f"{node.hostname}\n")
    node.write("/etc/machine-id", f"{uuid.uuid4().hex}\n")
    node.write("/etc/resolv.conf", f"nameserver {NETWORK}.{ROUTER}\noptions timeout:1 attempts:1\n")
    key = node.root / "etc/ssh/ssh_host_ed25519_key"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node.hostname, "-f", str(key)]
    subprocess.run(command, check=True, timeout=120)
    for name in ("aws", "lfs", "mount.lustre", "mount.nfs"):
        folder = "usr/sbin" if name.startswith("mount.") else "usr/local/bin"
        shutil.copy(STAND_INS / name, node.root / folder / name)
