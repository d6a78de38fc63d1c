"""A real Slurm cluster on loopback: slurmctld, slurmd for each node, slurmdbd, MariaDB and munge, in one directory.

The nodes are processes of this machine with ports of their own. Everything listens on 127.0.0.1, keeps its files below
the directory that it is given, and ends with the `with` block.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ports import free_ports

PROGRAMS = ("mariadb-install-db", "mariadbd", "munged", "sacctmgr", "slurmctld", "slurmd", "slurmdbd")
# Ends a hang. What is waited for takes some seconds on a quiet machine.
WAIT_SECONDS = 300.0


def missing() -> str | None:
    """Why no cluster can be started here; None if one can."""
    if os.geteuid():
        return "only root may run jobs as somebody else"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}; scripts/install_slurm installs them" if absent else None


def wait_for(what: str, is_so: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Returns once it is so; raises TimeoutError with `what` when it is not in time."""
    end = time.monotonic() + seconds
    pause = 0.1
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not after {seconds} s")
        time.sleep(pause)
        # Each check starts programs. Frequent checks would take the CPU from the process that the caller waits for.
        pause = min(1.1 * pause, 0.4)


@dataclass
class SlurmCluster:
    """A running cluster; `conf` is its slurm.conf, beside which its daemons keep their logs."""

    directory: Path
    nodes: tuple[str, ...]
    ports: dict[str, int]
    controller: subprocess.Popen[bytes] | None = None
    # The document that was applied last.
    in_force: dict[str, Any] | None = None

    @property
    def conf(self) -> Path:
        return self.directory / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        """What Slurm's commands and daemons run with."""
        return {"PATH": f"{os.environ['PATH']}{os.pathsep}/usr/sbin", "SLURM_CONF": str(self.conf), "LC_ALL": "C"}

    def ask(self, *command: str, check: bool = True) -> str:
        """What a command answers."""
        done = subprocess.run(
            command, env=self.environment, cwd="/", capture_output=True, text=True, check=False, timeout=WAIT_SECONDS
        )
        assert done.returncode == 0 or not check, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return (done.stdout + ("" if check else done.stderr)).strip()

    def submit(self, user: str, nodes: int, *options: str, script: str = "exec sleep 300", check: bool = True) -> str:
        """The id of a job on whole nodes, or what sbatch says when it refuses and `check` is off."""
        command = ["sbatch", "--parsable", f"--uid={user}", f"--nodes={nodes}", "--exclusive", "--output=/dev/null"]
        return self.ask(*command, "--chdir=/", *options, f"--wrap={script}", check=check)

    def state(self, job: str) -> str:
        """State and, for a job that waits, the reason: `RUNNING`, `PENDING QOSGrpNodeLimit`."""
        state, reason = self.ask("squeue", "--noheader", f"--jobs={job}", "--format=%T %r").split(maxsplit=1)
        return state if state == "RUNNING" else f"{state} {reason}"

    def becomes(self, job: str, state: str) -> None:
        """Waits until the job's state begins so."""
        wait_for(f"job {job} is {state}, not {self.state(job)}", lambda: self.state(job).startswith(state))

    def cancel_all(self) -> None:
        """Ends every job, and waits for the nodes to be free."""
        for job in self.ask("squeue", "--noheader", "--format=%A").split():
            self.ask("scancel", job, check=False)
        wait_for("no job is left", lambda: not self.ask("squeue", "--noheader"))
        wait_for("the nodes are idle", self.are_idle)

    def are_idle(self) -> bool:
        """Whether every node waits for work."""
        states = self.ask("sinfo", "--noheader", "--Node", "--format=%T", check=False).split()
        return states == ["idle"] * len(self.nodes)

    def restart_controller(self) -> None:
        """What `systemctl restart slurmctld` does on a node, which does not wait for the daemon either."""
        self.stop_controller()
        self.controller = start(self, "slurmctld", "-D")

    def start_controller(self) -> None:
        """Restarts slurmctld, and waits until it answers."""
        self.restart_controller()
        wait_for("slurmctld answers", lambda: "is UP" in self.ask("scontrol", "ping", check=False))

    def stop_controller(self) -> None:
        if self.controller is not None:
            end(self.controller)


def start(cluster: SlurmCluster, *command: str) -> subprocess.Popen[bytes]:
    """A daemon in the foreground, with its output in a file of its name."""
    with (cluster.directory / "log" / f"{command[0]}.out").open("ab") as out:
        return subprocess.Popen(command, env=cluster.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)


def end(daemon: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL for one that does not hear."""
    daemon.terminate()
    with suppress(subprocess.TimeoutExpired):
        daemon.wait(120)
        return
    daemon.kill()
    daemon.wait()


@contextmanager
def slurm_cluster(directory: Path, nodes: Sequence[str], devices: Sequence[str] = ()) -> Iterator[SlurmCluster]:
    """A cluster whose nodes are idle and whose accounting is empty. Each node has these device files for its GPUs."""
    names = ("mariadb", "slurmdbd", "slurmctld", *nodes)
    cluster = SlurmCluster(directory, tuple(nodes), dict(zip(names, free_ports(len(names)), strict=True)))
    for folder in ("database", "state", "log", "run", *(f"spool/{node}" for node in nodes)):
        (directory / folder).mkdir(parents=True)
    with ExitStack() as daemons:

        def run(*command: str) -> None:
            daemons.callback(end, start(cluster, *command))

        write_configuration(cluster, devices)
        run(*munged(directory))
        run(*mariadbd(cluster))
        wait_for("MariaDB accepts connections", lambda: accepts(cluster.ports["mariadb"]))
        run("slurmdbd", "-D")
        wait_for("slurmdbd accepts connections", lambda: accepts(cluster.ports["slurmdbd"]))
        daemons.callback(cluster.stop_controller)
        cluster.start_controller()
        for node in nodes:
            run("slurmd", "-D", "-N", node)
        wait_for("the nodes are idle", cluster.are_idle)
        yield cluster


def munged(directory: Path) -> list[str]:
    """munged with a key of its own."""
    key = directory / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = {"key-file": key, "socket": directory / "run/munge", "pid-file": directory / "run/munged.pid"}
    files |= {"log-file": directory / "log/munged.log", "seed-file": directory / "run/munge.seed"}
    return ["munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in files.items())]


def mariadbd(cluster: SlurmCluster) -> list[str]:
    """MariaDB with an empty database, which root may enter without a password, from this machine."""
    data = cluster.directory / "database"
    made = ["--no-defaults", f"--datadir={data}", "--user=root"]
    install = ["mariadb-install-db", *made, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(install, check=True, capture_output=True, timeout=WAIT_SECONDS)
    sizes = ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0"]
    listens = [f"--socket={cluster.directory / 'run/mariadb'}", "--bind-address=127.0.0.1"]
    return ["mariadbd", *made, *sizes, *listens, f"--port={cluster.ports['mariadb']}"]


def write_configuration(cluster: SlurmCluster, devices: Sequence[str]) -> None:
    """slurm.conf, gres.conf, and slurmdbd.conf, with none of the settings that the platform makes."""
    directory, ports, host = cluster.directory, cluster.ports, socket.gethostname().split(".")[0]
    settings = {
        "ClusterName": "lab",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": ports["slurmctld"],
        "SlurmUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={directory / 'run/munge'}",
        "StateSaveLocation": directory / "state",
        "SlurmdSpoolDir": directory / "spool/%n",
        "SlurmctldPidFile": directory / "run/slurmctld.pid",
        "SlurmdPidFile": directory / "run/slurmd.%n.pid",
        "SlurmctldLogFile": directory / "log/slurmctld.log",
        "SlurmdLogFile": directory / "log/slurmd.%n.log",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SlurmdParameters": "config_overrides",
        "SchedulerParameters": "sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0",
        "KillWait": 1,
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": ports["slurmdbd"],
        # With munge, not a password but the socket of the munged that slurmdbd uses.
        "AccountingStoragePass": directory / "run/munge",
    }
    lines = [f"{key}={value}" for key, value in settings.items()]
    gres = f" Gres=gpu:{len(devices)}" if devices else ""
    lines += ["GresTypes=gpu"] if devices else []
    lines += [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[node]} CPUs=2{gres}"
        for node in cluster.nodes
    ]
    (directory / "gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in devices))
    lines.append(f"PartitionName=dev Nodes={','.join(cluster.nodes)} Default=YES MaxTime=INFINITE State=UP")
    cluster.conf.write_text("\n".join(lines) + "\n")
    accounting = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={directory / 'run/munge'}",
        "DbdHost": "localhost",
        "DbdPort": ports["slurmdbd"],
        "SlurmUser": "root",
        "StorageType": "accounting_storage/mysql",
        # Not localhost, which MariaDB's library takes for the socket of the machine's own server.
        "StorageHost": "127.0.0.1",
        "StoragePort": ports["mariadb"],
        "StorageUser": "root",
        "LogFile": directory / "log/slurmdbd.log",
        "PidFile": directory / "run/slurmdbd.pid",
    }
    file = directory / "slurmdbd.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in accounting.items()))
    # slurmdbd refuses a file that others can read, because it may hold a password.
    file.chmod(0o600)


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
