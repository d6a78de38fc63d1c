"""With walls, only the nodes of a job connect to its programs: on a real Slurm, with the kernel's firewall."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.launch.slurm.machines import Machines, machines, missing
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.synthesis import ROOT

WHY_NOT = missing() or (None if shutil.which("nft") or "CI" in os.environ else "nft is not installed")
SCRIPTS = ROOT / "lifecycle_scripts" / "slurm"
PORT = 29500
SERVER = f"import socket, time; s = socket.create_server(('', {PORT})); time.sleep(3600)"
CLIENT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"


@pytest.fixture(scope="module")
def walls() -> ModuleType:
    spec = importlib.util.spec_from_file_location("job_walls", SCRIPTS / "job_walls.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    if WHY_NOT is not None:
        pytest.skip(WHY_NOT)
    scripts = Path("/var/tmp") / f"trainway-walls-{os.getpid()}"
    scripts.mkdir()
    for name, kind in (("prolog.sh", "begin"), ("epilog.sh", "end")):
        (scripts / name).write_text(f"#!/bin/sh\nexec /usr/bin/python3 {SCRIPTS / 'job_walls.py'} {kind}\n")
        (scripts / name).chmod(0o755)
    settings = {"Prolog": scripts / "prolog.sh", "Epilog": scripts / "epilog.sh", "PrologFlags": "Alloc"}
    try:
        with machines(["n1", "n2", "n3"], settings=settings) as started:
            yield started
    finally:
        shutil.rmtree(scripts)


def submit(cluster: Machines, nodes: str, script: str) -> str:
    out = cluster.shared / "%j.out"
    command = ("sbatch", "--parsable", f"--nodelist={nodes}", "--exclusive", f"--output={out}", "--chdir=/")
    return cluster.ask(*command, f"--wrap={script}")


def connects(cluster: Machines, source: str, target: str, port: int = PORT) -> bool:
    command = cluster.on(source, "/usr/bin/python3", "-c", CLIENT, target, str(port))
    return subprocess.run(command, cwd="/", capture_output=True, timeout=300).returncode == 0


def has_ended(cluster: Machines, job: str) -> bool:
    return not cluster.ask("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%t").strip("CD\n ")


def test_only_nodes_of_the_job_connect_to_its_programs(cluster: Machines) -> None:
    job = submit(cluster, "n1,n2", f'srun /usr/bin/python3 -c "{SERVER}"')
    wait_for("the program listens", lambda: connects(cluster, "n1", "n2") and connects(cluster, "n2", "n1"))
    assert not connects(cluster, "n3", "n1") and not connects(cluster, "n3", "n2"), "a node without the job"
    assert connects(cluster, "controller", "n1"), "a host that is no compute node"
    assert connects(cluster, "n3", "n1", 6818), "slurmd"
    # A job of somebody else on the third node changes nothing.
    other = submit(cluster, "n3", "sleep 300")
    wait_for("the other job runs", lambda: cluster.ask("squeue", "--noheader", f"--jobs={other}", "--format=%t") == "R")
    assert not connects(cluster, "n3", "n1")
    # Slurm still starts and ends steps on the nodes.
    cluster.ask("scancel", job)
    wait_for("the first job has ended", lambda: set(cluster.idle()) == {"n1", "n2"})
    cluster.ask("scancel", other)
    wait_for("the nodes are idle", lambda: set(cluster.idle()) == {"n1", "n2", "n3"})

    together = submit(cluster, "n1,n3", f'srun /usr/bin/python3 -c "{SERVER}"')
    wait_for("the third node is of the next job", lambda: connects(cluster, "n3", "n1"))
    assert not connects(cluster, "n2", "n1"), "which the node of the earlier job is not"
    cluster.ask("scancel", together)


def test_without_a_firewall_no_job_begins_and_the_reason_is_told(
    walls: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, script in (("nft", "echo 'Operation not permitted' >&2; exit 1"), ("scontrol", "echo localhost")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "slurm.conf").write_text("NodeName=n[1-2] NodeAddr=localhost\n")
    monkeypatch.setattr(walls, "PATH", f"{tmp_path}:/usr/bin:/bin")
    # The program sets it, and pytest restores what it has set itself.
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(walls, "JOBS", tmp_path / "jobs")
    told = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_CONF": str(tmp_path / "slurm.conf")}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["job_walls.py", "begin"])
    assert walls.main() == 1
    assert "the wall around job 7 cannot be changed: Operation not permitted" in capsys.readouterr().err


def test_nodes_and_ports_are_those_of_slurms_configuration(walls: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walls, "hostnames", lambda ranges: [f"<{ranges}>"])
    text = """
SlurmctldPort=6817
SlurmdPort=6820
NodeName=DEFAULT CPUs=2
NodeName=ip-10-1-2-3 NodeAddr=10.1.2.3 NodeHostname=ip-10-1-2-3 State=CLOUD Port=7000
nodename=n[1-3] CPUs=2
PartitionName=train Nodes=n[1-3]
"""
    assert walls.compute_nodes(text) == ["<10.1.2.3>", "<n[1-3]>"]
    assert walls.slurmd_ports(text) == ["6820", "7000"]
    assert walls.slurmd_ports("") == ["6818"]
