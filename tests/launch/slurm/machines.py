"""A Slurm cluster of machines: slurmctld and each slurmd in namespaces of its own, on a network of its own.

A machine is a process, the first of its PID namespace, and everything below it; killing it is a power cut. Machines
share the file system of the one they run on, as nodes share Lustre, but neither /tmp, /run nor /dev/shm. None of this
outlives the test: a machine is gone with the test's process, and after an hour in any case.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.program_directories import hide

PROGRAMS = ("ip", "munged", "nsenter", "setpriv", "slurmctld", "slurmd", "unshare")
CONTROLLER, SWITCH = "controller", "switch"
ADDRESSES = "10.77.0"
LONGEST_SECONDS = 3600

# The first process of a machine. What daemons leave behind is its to reap.
BOOT = """
set -e
hostname {name}
mount --make-rprivate /
mkdir -p {own}/run/munge {own}/log {own}/spool
mount --bind {hosts} /etc/hosts
mount --bind {own}/run /run
{programs}
chmod 1777 /tmp /dev/shm
ip link set lo up
: >{own}/booted
until [[ -e {own}/connected ]]; do sleep 0.05; done
chown root /run/munge
munged --force --key-file={key} --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/munged.pid \\
  --log-file={own}/log/munged.log --seed-file={own}/munge.seed
{daemon}
sleep {longest} &
wait $!
"""


def missing() -> str | None:
    """Why no machines can be started here; None if they can. Continuous integration skips nothing."""
    if "CI" in os.environ:
        return None
    if os.geteuid():
        return "only root may make namespaces"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}; scripts/install_slurm installs Slurm" if absent else None


@dataclass
class Machines:
    """A running cluster. What is below `shared` is on every machine, and here."""

    directory: Path
    nodes: tuple[str, ...]
    pids: dict[str, int] = field(default_factory=dict)

    @property
    def shared(self) -> Path:
        return self.directory / "fsx"

    @property
    def environment(self) -> dict[str, str]:
        """What commands and daemons run with."""
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"HOME": "/root", "LANG": "C.UTF-8", "PATH": path, "SLURM_CONF": str(self.directory / "slurm.conf")}

    @property
    def commands(self) -> Path:
        """A directory for PATH: Slurm's commands, which run on the controller, as on a login node."""
        return self.directory / "bin"

    def on(self, machine: str, *command: str) -> list[str]:
        """The command that runs another one there, with nothing of this process's environment."""
        environment = [f"{name}={value}" for name, value in self.environment.items()]
        return ["nsenter", f"--target={self.pids[machine]}", "--all", "--", "env", "-i", *environment, *command]

    def ask(self, *command: str) -> str:
        """What a command answers on the controller."""
        there = self.on(CONTROLLER, *command)
        done = subprocess.run(there, cwd="/", capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def cut_power(self, node: str) -> None:
        """The node is gone without a word."""
        os.kill(self.pids.pop(node), 9)

    def idle(self) -> list[str]:
        """The nodes that wait for work."""
        return self.ask("sinfo", "--noheader", "--Node", "--states=idle", "--responding", "--format=%N").split()


@contextmanager
def machines(
    nodes: Sequence[str],
    *,
    gpus: int = 0,
    gres: str = "gpu",
    settings: Mapping[str, object] | None = None,
    files: Mapping[str, str] | None = None,
    on_one_cpu: bool = False,
) -> Iterator[Machines]:
    """A cluster whose nodes are idle, in the partition `train`; what Slurm counts as `gpus` of each are files.

    `gres` is Slurm's name of them. `settings` are lines of slurm.conf, and `files` are beside it. `on_one_cpu` runs all
    machines on one CPU: since Linux 6.18, a mount namespace can be kept by a bind mount only if its number is above
    that of the own one, and each CPU has a range of numbers.
    """
    # Not below /tmp, of which each machine has its own.
    directory = Path(tempfile.mkdtemp(prefix="trainway-", dir="/var/tmp"))
    cluster = Machines(directory, tuple(nodes))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        for folder in ("bin", "fsx", "state"):
            (directory / folder).mkdir()
        key = directory / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        _write_configuration(cluster, gpus, gres, settings or {})
        for name, text in (files or {}).items():
            (directory / name).write_text(text)
        names = (SWITCH, CONTROLLER, *nodes)
        for name in names:
            daemon = {SWITCH: "", CONTROLLER: "slurmctld -c"}.get(name, f"slurmd -N {name}")
            stack.callback(_end, _boot(cluster, name, daemon, on_one_cpu=on_one_cpu))
        for name in names:
            wait_for(f"{name} boots", (directory / name / "booted").exists)
        _connect(cluster, names)
        for command in ("sacct", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun"):
            file = cluster.commands / command
            file.write_text(f'#!/bin/sh\nexec {shlex.join(cluster.on(CONTROLLER, command))} "$@"\n')
            file.chmod(0o755)
        wait_for("the nodes are idle", lambda: _is_up(cluster) and set(cluster.idle()) == set(nodes))
        yield cluster


def _boot(cluster: Machines, name: str, daemon: str, *, on_one_cpu: bool) -> subprocess.Popen[bytes]:
    own = cluster.directory / name
    own.mkdir()
    script = own / "boot.sh"
    script.write_text(
        BOOT.format(
            name=name,
            own=own,
            # A job's Python is in the checkout.
            programs=hide("/tmp", "/dev/shm", open_to_all=True),
            hosts=cluster.directory / "hosts",
            key=cluster.directory / "munge.key",
            daemon=daemon,
            longest=LONGEST_SECONDS,
        )
        if daemon
        else f"ip link add br0 type bridge\nip link set br0 up\n: >{own}/booted\nsleep {LONGEST_SECONDS} &\nwait $!\n"
    )
    unshare = ["unshare", "--net", "--mount", "--uts", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    pinned = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))] if on_one_cpu else []
    with (own / "boot.log").open("wb") as log:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", *pinned, *unshare, "bash", str(script)],
            env=cluster.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_for(f"{name} has a first process", lambda: bool(children.read_text().split()))
    cluster.pids[name] = int(children.read_text().split()[0])
    return process


def _connect(cluster: Machines, names: Sequence[str]) -> None:
    """A cable from each machine to the switch."""
    for number, name in enumerate(names[1:], start=10):
        inside, plug = str(cluster.pids[name]), f"port{number}"
        cable = ["ip", "link", "add", plug, "type", "veth", "peer", "name", "eth0", "netns", inside]
        for machine, command in (
            (SWITCH, cable),
            (SWITCH, ["ip", "link", "set", plug, "master", "br0", "up"]),
            (name, ["ip", "address", "add", f"{ADDRESSES}.{number}/24", "dev", "eth0"]),
            (name, ["ip", "link", "set", "eth0", "up"]),
        ):
            # The PID that `netns` means is one of this machine's.
            network = ["nsenter", f"--target={cluster.pids[machine]}", "--net", "--"]
            subprocess.run([*network, *command], check=True, timeout=120)
        (cluster.directory / name / "connected").touch()


def _is_up(cluster: Machines) -> bool:
    ping = subprocess.run(cluster.on(CONTROLLER, "scontrol", "ping"), cwd="/", capture_output=True, text=True)
    return "is UP" in ping.stdout


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _write_configuration(cluster: Machines, gpus: int, gres: str, more: Mapping[str, object]) -> None:
    directory, names = cluster.directory, ("", CONTROLLER, *cluster.nodes)
    hosts = [f"{ADDRESSES}.{number}\t{name}" for number, name in enumerate(names[1:], start=10)]
    (directory / "hosts").write_text("\n".join(["127.0.0.1\tlocalhost", *hosts]) + "\n")
    settings = {
        "ClusterName": "lab",
        "SlurmctldHost": CONTROLLER,
        "SlurmUser": "root",
        "AuthType": "auth/munge",
        # How long the credential of a step is good, and so how long a job that lost a node waits: two minutes when
        # nothing is said (batch_requeue_fini in src/slurmctld/job_mgr.c of Slurm 22.05).
        "AuthInfo": "socket=/run/munge/munge.socket.2,cred_expire=10",
        "StateSaveLocation": directory / "state",
        "SlurmdSpoolDir": directory / "%n/spool",
        "SlurmctldPidFile": "/run/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SlurmctldLogFile": directory / CONTROLLER / "log/slurmctld.log",
        "SlurmdLogFile": directory / "%n/log/slurmd.log",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SlurmdParameters": "config_overrides",
        "SchedulerParameters": "sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0",
        "SlurmdTimeout": 6,
        "MessageTimeout": 4,
        "TCPTimeout": 1,
        "KillWait": 20,
        **({"GresTypes": gres} if gpus else {}),
        **more,
    }
    lines = [f"{key}={value}" for key, value in settings.items()]
    devices = f" Gres={gres}:{gpus}" if gpus else ""
    lines += [f"NodeName={node} CPUs=2 RealMemory=4096{devices}" for node in cluster.nodes]
    lines.append(f"PartitionName=train Nodes={','.join(cluster.nodes)} Default=YES MaxTime=INFINITE State=UP")
    (directory / "slurm.conf").write_text("\n".join(lines) + "\n")
    if gpus:
        for number in range(gpus):
            (directory / f"gpu{number}").touch()
        (directory / "gres.conf").write_text(f"Name={gres} File={directory}/gpu[0-{gpus - 1}]\n")
