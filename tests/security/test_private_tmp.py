"""Threat: a user reads or plants files in /tmp and /dev/shm of another user's job on the same node. On a real Slurm."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from lifecycle_scripts.slurm.platform_settings import settings
from tests.launch.slurm.machines import Machines, machines, missing
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.synthesis import ROOT

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
# Two users of the operating system, as no others are on every machine.
VICTIM, ATTACKER = 1, 5
VERSION = "slurm-wlm 22.05.8"
BASE = "/opt/trainway/job-tmp"
WRITTEN = (ROOT / "lifecycle_scripts/slurm/platform_settings.sh").read_text()
WORKS = "umask 000; echo secret >/tmp/file; echo secret >/dev/shm/file; echo >{shared}/works; sleep 3600"
ATTACK = (
    "cat /tmp/file /dev/shm/file; cat {base}/*/.*/file {base}/*/*/file {base}/*/file; ls -A /tmp /dev/shm;"
    " mkdir /tmp/trainway-code-1 && echo planted"
)


@contextmanager
def cluster(private: bool) -> Iterator[Machines]:
    """Run a cluster of one node, with the settings of a platform. Its base is one that no other machine has."""
    plan = {"private_tmp": private}
    files = {"job_container.conf": "AutoBasePath=true\nBasePath=/run/job-tmp\n"} if private else {}
    with machines(["n1"], settings=settings(plan, VERSION, "/there"), files=files, on_one_cpu=True) as started:
        # Others than root may submit jobs.
        started.directory.chmod(0o755)
        started.shared.chmod(0o777)
        yield started


def submit(on: Machines, user: int, script: str, name: str) -> str:
    words = ("sbatch", "--parsable", "--ntasks=1", "--mem=100", "--chdir=/", f"--output={on.shared}/{name}")
    as_user = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
    return on.ask(*as_user, *words, f"--wrap={script}")


def stolen(on: Machines) -> str:
    """Return what a job of the attacker finds beside a job of the victim."""
    job = submit(on, VICTIM, WORKS.format(shared=on.shared), "victim.out")
    wait_for("the victim works", (on.shared / "works").exists)
    attack = ATTACK.format(base="/run/job-tmp")
    submit(on, ATTACKER, f"({attack}) >{on.shared}/found 2>&1; echo >{on.shared}/done", "attacker.out")
    wait_for("the attacker is done", (on.shared / "done").exists)
    assert on.ask("squeue", "--noheader", f"--jobs={job}", "--format=%t") == "R", "they were on the node together"
    return (on.shared / "found").read_text()


def test_a_job_sees_no_temporary_file_of_another_users_job_and_plants_none() -> None:
    with cluster(private=True) as on:
        found = stolen(on)
        assert "secret" not in found and found.count("No such file") + found.count("Permission denied") >= 3, found
        # It has created the directory in a /tmp of its own, and the victim has none of it.
        assert "planted" in found
        attack = ATTACK.format(base="/run/job-tmp")
        outside = on.on("n1", "setpriv", f"--reuid={ATTACKER}", f"--regid={ATTACKER}", "--clear-groups", "sh", "-c")
        login = subprocess.run([*outside, attack], cwd="/", capture_output=True, text=True, timeout=300)
        assert "secret" not in login.stdout, "a login on the node"
        on.ask("scancel", "--user=1")
        wait_for("the node is idle", lambda: on.idle() == ["n1"])
        # Slurm deletes the files with the job, at times a moment after it calls the node idle.
        left = on.on("n1", "find", "/run/job-tmp", "-name", "file")
        wait_for("the files are deleted", lambda: not subprocess.run(left, cwd="/", capture_output=True).stdout)


@pytest.mark.exhaustive
def test_without_private_directories_the_attack_succeeds() -> None:
    with cluster(private=False) as on:
        assert stolen(on).count("secret") == 2


@pytest.mark.parametrize(
    ("kernel", "can"), [("5.15.0-1052-aws", True), ("6.8.0-1021-aws", True), ("6.18.44", False), ("7.0.1", False)]
)
def test_a_kernel_on_which_some_jobs_would_not_start_shares_tmp(kernel: str, can: bool) -> None:
    script = ROOT / "lifecycle_scripts/slurm/has_private_tmp.sh"
    environment = {"KERNEL": kernel, "PATH": "/usr/bin:/bin"}
    assert (subprocess.run(["bash", script], env=environment, timeout=1800).returncode == 0) is can


def test_the_settings_are_those_that_the_scripts_write() -> None:
    """The tests use another base, because their machines share a disk."""
    assert f"printf '%s\\n' AutoBasePath=true BasePath={BASE})" in WRITTEN
    keys: Mapping[str, str] = settings({"private_tmp": True}, VERSION, "/there")
    assert keys == {"JobContainerType": "job_container/tmpfs", "PrologFlags": "Contain"}
    assert settings({"private_tmp": True}, "slurm 25.11.1", "/there")["NamespaceType"] == "namespace/tmpfs"
    assert settings({"private_tmp": True}, "slurm 25.05.3", "/there")["JobContainerType"] == "job_container/tmpfs"
