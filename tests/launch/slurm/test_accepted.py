"""A real Slurm takes the script: sbatch knows every option of it, and the nodes have what it asks for."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from tests.launch.slurm.machines import CONTROLLER, Machines, machines, missing
from tests.launch.slurm.requests import CATALOGUE, on_slurm, request
from tests.launch.slurm.sessions import hyperpod, without_slurm
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.slurm import SlurmOptions, logs, render_script, state, submit
from trainway.launch.slurm.cluster import cluster_of
from trainway.launch.slurm.cluster_state import cluster_state
from trainway.launch.target.protocol import Phase
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(["n1", "n2"], gpus=8) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        yield running


@pytest.fixture
def p5(cluster: Machines, hand_off: HandOff) -> HandOff:
    return on_slurm(hand_off, instance_type="p5.48xlarge", mount=str(cluster.shared))


@pytest.mark.parametrize(
    "options",
    [SlurmOptions(time_limit_minutes=90), SlurmOptions(environment=PurePosixPath("/fsx/envs/ada"))],
)
def test_slurm_takes_every_option_of_the_script(
    options: SlurmOptions, cluster: Machines, p5: HandOff, tmp_path: Path
) -> None:
    asked = request(tmp_path, p5, nodes=2, batch={"global": 16, "micro": 1}, team="research")
    script = cluster.shared / "script"
    script.write_text(render_script(asked, CATALOGUE, options))
    cluster.ask("sbatch", "--test-only", str(script))


def test_a_job_that_slurm_refuses_is_explained_in_its_words(cluster: Machines, p5: HandOff, tmp_path: Path) -> None:
    renamed = p5.node_groups[0].model_copy(update={"name": "elsewhere"})
    elsewhere = p5.model_copy(update={"node_groups": (renamed,)})
    asked = request(tmp_path, elsewhere, batch={"global": 8, "micro": 1})
    with pytest.raises(
        UsageError, match=r"small-1 cannot be submitted\n    why: sbatch: error: .*[Ii]nvalid partition"
    ):
        submit(asked, CATALOGUE)
    assert not cluster.ask("squeue", "--noheader")


def test_a_run_whose_environment_is_not_there_has_failed(p5: HandOff, tmp_path: Path) -> None:
    asked = request(tmp_path, p5, run="absent", batch={"global": 8, "micro": 1})
    handle = submit(asked, CATALOGUE, SlurmOptions(environment=PurePosixPath("/fsx/envs/nobody")))
    said = list(logs(handle, follow=True))
    assert any("/fsx/envs/nobody/bin/activate: No such file" in line for line in said)
    assert state(handle).phase is Phase.FAILED


@pytest.mark.usefixtures("empty_account")
def test_a_run_is_submitted_and_watched_over_a_session(
    cluster: Machines, p5: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = p5.model_copy(update={"cluster": p5.cluster.model_copy(update={"arn": hyperpod(p5.cluster.name, "login")})})
    monkeypatch.setenv("PATH", str(without_slurm(tmp_path, commands=cluster.commands, user="ada")))
    asked = request(tmp_path, there, run="remote", batch={"global": 8, "micro": 1})
    handle = submit(asked, CATALOGUE, SlurmOptions(environment=PurePosixPath("/fsx/envs/nobody"), user="ada"))
    assert any("/fsx/envs/nobody/bin/activate: No such file" in line for line in logs(handle, follow=True))
    assert state(handle).phase is Phase.FAILED
    assert (cluster.shared / "runs" / "remote" / "job.yaml").read_text() == asked.job_text


def test_a_run_that_nobody_knows_is_gone(cluster: Machines, p5: HandOff) -> None:
    handle = {**cluster_of(p5), "job": "4711", "directory": str(cluster.shared / "runs" / "never")}
    assert state(handle).phase is Phase.GONE


def test_a_controller_that_does_not_answer_is_not_a_run_that_is_gone(
    p5: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaint = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    (tmp_path / "squeue").write_text(f"#!/bin/sh\necho '{complaint}' >&2\nexit 1\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    handle = {**cluster_of(p5), "job": "4711", "directory": "/fsx/runs/never"}
    with pytest.raises(UsageError, match=r"the state of job 4711 is not known\n    why: .*Unable to contact"):
        state(handle)


def test_a_controller_that_closes_one_connection_is_asked_again(
    cluster: Machines, p5: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, real = tmp_path / "asked", shutil.which("squeue")
    once = f"[ -e {asked} ] || {{ touch {asked}; echo 'Unexpected missing socket error' >&2; exit 1; }}"
    (tmp_path / "squeue").write_text(f'#!/bin/sh\n{once}\nexec {real} "$@"\n')
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    handle = {**cluster_of(p5), "job": "4711", "directory": str(cluster.shared / "runs" / "never")}
    assert state(handle).phase is Phase.GONE
    assert asked.exists()


@pytest.mark.parametrize(
    ("row", "phase"),
    [
        ("4711|COMPLETED|None", Phase.SUCCEEDED),
        ("4711|CANCELLED by 1000|None", Phase.STOPPED),
        ("4711|NODE_FAIL|None\n4711|OUT_OF_MEMORY|None", Phase.FAILED),
    ],
)
def test_a_run_that_slurm_forgot_is_in_its_accounts(
    row: str, phase: Phase, cluster: Machines, p5: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a sacct that answers in the columns that it is asked for: https://slurm.schedmd.com/sacct.html"""
    (tmp_path / "sacct").write_text(f"#!/bin/sh\nprintf '%s\\n' '{row}'\n")
    (tmp_path / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    handle = {**cluster_of(p5), "job": "4711", "directory": str(cluster.shared / "runs" / "never")}
    assert state(handle).phase is phase


# A job that serves the metrics of a run and of a node, on their two ports.
EXPORTS = """
for port in 9464 9400; do
  mkdir -p {directory}/$port && cp {directory}/metrics {directory}/$port/metrics
  (cd {directory}/$port && exec {python} -m http.server $port) &
done
sleep 600
"""
METRICS = """trainway_run_step{run="serves",node_rank="0"} 7
trainway_run_tokens_per_second{run="serves",node_rank="0"} 1234.5
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0"} 60
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-1"} 100
"""


def test_the_nodes_and_jobs_of_a_cluster_are_known(cluster: Machines, p5: HandOff) -> None:
    """`trainway top` reads GPUs, the jobs of all users, and the exporters of a run and of its node."""
    directory, options = cluster.shared / "exports", ("--parsable", "--output=/dev/null", "--gpus-per-node=2")
    directory.mkdir()
    (directory / "metrics").write_text(METRICS)
    (directory / "script").write_text("#!/bin/bash\n" + EXPORTS.format(directory=directory, python=sys.executable))
    running = cluster.ask("sbatch", *options, "--job-name=serves", str(directory / "script")).strip()
    # A login node reaches the nodes, and this machine does not.
    curl = cluster.commands / "curl"
    curl.write_text(f'#!/bin/sh\nexec {shlex.join(cluster.on(CONTROLLER, "curl"))} "$@"\n')
    curl.chmod(0o755)
    waiting = cluster.ask(
        "sbatch", *options, "--job-name=a|b", "--hold", "--nodes=2", str(directory / "script")
    ).strip()
    cluster.ask("scontrol", "update", "nodename=n2", "state=drain", "reason=Xid 79 on it")
    try:
        wait_for("its exporters answer", lambda: any(each.metrics for each in cluster_state(p5).jobs))
        found = cluster_state(p5)
        nodes, jobs = {each.name: each for each in found.nodes}, {each.found_by["job"]: each for each in found.jobs}
        assert {name: (each.gpus, each.allocated, each.used) for name, each in nodes.items()} == {
            "n1": (8, 2, 0.8),
            "n2": (8, 0, None),
        }
        assert nodes["n1"].group == "train" and nodes["n1"].state.startswith("mixed")
        assert "drain" in nodes["n2"].state and nodes["n2"].reason.startswith("Xid 79 on it")
        job, held = jobs[running], jobs[waiting]
        assert (job.name, job.phase, job.nodes, job.gpus) == ("serves", Phase.RUNNING, ("n1",), 2)
        assert job.metrics == {"trainway_run_step": 7, "trainway_run_tokens_per_second": 1234.5}
        assert job.owner == "root" and job.since and 0 <= time.time() - job.since < 600
        assert (held.name, held.phase, held.nodes, held.gpus) == ("a|b", Phase.QUEUED, (), 4)
        assert held.reason == "JobHeldUser" and held.metrics is None
        assert found.unknown == ()
    finally:
        cluster.ask("scancel", running, waiting)
        cluster.ask("scontrol", "update", "nodename=n2", "state=resume")
    wait_for("they are gone", lambda: not cluster_state(p5).jobs)
    # Without exporters, the use of GPUs and tokens/s are unknown.
    assert cluster_state(p5).nodes[0].used is None
