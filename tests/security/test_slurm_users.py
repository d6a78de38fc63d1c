"""Threat: a user of a Slurm cluster acts on another user's run by the command line. On a real Slurm, with real users.

The users run Trainway on the controller, as on a login node, each in an empty home. New files are for their owners
alone, as `login.defs` has it on the nodes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import boto3
import pytest
import typer
import yaml

from emulator import Emulator, running
from tests.launch.slurm.machines import CONTROLLER, Machines, machines, missing
from tests.launch.slurm.test_three_commands import deployed, relays
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.synthesis import ROOT
from trainway.spec.handoff_names import parameter_name
from trainway.spec.loader import load_platform

# The Python of the tests may be where only root reads.
PYTHON = f"/usr/bin/python3.{sys.version_info.minor}"
PACKAGES = Path(typer.__file__).parents[1]
WHY_NOT = missing() or (None if Path(PYTHON).exists() else f"there is no {PYTHON} for other users")
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
PLATFORM_FILE = ROOT / "examples" / "hyperpod-slurm-p5en.yaml"
PLATFORM = load_platform(PLATFORM_FILE)
# Users of the operating system, as no others are on every machine.
USERS = {"ada": 1, "cyd": 5}
JOB = {"name": "nightly", "run": {"script": "echo a secret; exec sleep 3600", "stop": {"grace": 5}}}
AS_AT_A_LOGIN = 'umask 077; cd "$0"; exec "$@"'


@dataclass(frozen=True)
class Cluster:
    """The machines, and the emulated AWS that they reach."""

    machines: Machines
    emulator: Emulator

    def at(self, person: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a person on the controller."""
        on, user = self.machines, USERS[person]
        environment = {**self.emulator.environment(), "HOME": str(self.home(person)), "LOGNAME": person}
        environment |= {"PYTHONPATH": f"{ROOT}:{PACKAGES}", "AWS_SHARED_CREDENTIALS_FILE": str(on.shared / "aws")}
        command = on.on(
            *(CONTROLLER, "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "env"),
            *(f"{name}={value}" for name, value in environment.items()),
            *("sh", "-c", AS_AT_A_LOGIN, str(self.home(person)), *words),
        )
        return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=300)

    def trainway(self, person: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.at(person, PYTHON, "-m", "trainway.cli", *words)

    def each(self, person: str, *commands: Sequence[str]) -> list[subprocess.CompletedProcess[str]]:
        """Run commands of Trainway in turn, each in a process that one Python of the person forks."""
        done = self.at(person, PYTHON, "-m", "tests.command_line", json.dumps(commands))
        assert done.returncode == 0, done.stderr
        return [
            subprocess.CompletedProcess(list(words), *ended)
            for words, ended in zip(commands, json.loads(done.stdout), strict=True)
        ]

    def home(self, person: str) -> Path:
        return self.machines.shared / "users" / person


@contextmanager
def directory_of(roles: Path) -> Iterator[None]:
    """Create the directory with the task prolog, and with a file of roles."""
    roles.mkdir()
    shutil.copy(ROOT / "lifecycle_scripts/team_roles/task_prolog.sh", roles)
    (roles / "teams.json").write_text("{}")
    try:
        yield
    finally:
        shutil.rmtree(roles)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # As the step leaves it (lifecycle_scripts/steps/42-team-roles.sh), in a directory that all machines share.
    roles = Path("/var/tmp") / f"trainway-team-roles-{os.getpid()}"
    with (
        directory_of(roles),
        machines(["n1"], settings={"TaskProlog": roles / "task_prolog.sh"}) as on,
        running(region=PLATFORM.region) as emulator,
    ):
        on.directory.chmod(0o755)
        on.shared.chmod(0o777)
        # As the nodes leave it (lifecycle_scripts/steps/20-lustre.sh).
        (on.shared / "runs").mkdir()
        (on.shared / "runs").chmod(0o1777)
        (on.shared / "aws").write_text("[default]\naws_access_key_id=emulator\naws_secret_access_key=emulator\n")
        (on.shared / "environment" / "bin").mkdir(parents=True)
        (on.shared / "environment" / "bin" / "activate").touch()
        (on.shared / "environment" / "bin" / "python").symlink_to(PYTHON)
        deployed(emulator, PLATFORM_FILE, str(on.shared))
        found = Cluster(on, emulator)
        for person, user in USERS.items():
            found.home(person).mkdir(parents=True)
            (found.home(person) / "job.yaml").write_text(yaml.safe_dump(JOB))
            for each in (found.home(person), found.home(person) / "job.yaml"):
                os.chown(each, user, user)
            found.home(person).chmod(0o700)
        # The controller is a machine from which people launch.
        with relays(replace(on, nodes=(CONTROLLER, *on.nodes)), emulator.endpoint):
            yield found


def has_said(on: Machines, run: str, text: str) -> bool:
    """Return whether a log of the run contains the text. `trainway logs` would import modules for a second."""
    logs = (on.shared / "runs").rglob(f"{run}/logs/**/*")
    return any(text in log.read_text() for log in logs if log.is_file())


def test_another_user_reads_no_log_and_stops_no_job(cluster: Cluster) -> None:
    on, environment = cluster.machines, str(cluster.machines.shared / "environment")
    words = ("job.yaml", "--target", "slurm", "--platform", str(PLATFORM_FILE), "--environment", environment)
    done = cluster.trainway("ada", "launch", *words)
    assert done.returncode == 0, done.stderr
    run = done.stdout.split()[-1]
    wait_for("it works", lambda: has_said(on, run, "a secret"))
    assert "a secret" in cluster.trainway("ada", "logs", run).stdout
    commands = ("logs", "explain", "stop", "resume")
    connected, *others = cluster.each(
        "cyd", ("connect", PLATFORM.name, "--region", PLATFORM.region), *((command, run) for command in commands)
    )
    assert connected.returncode == 0, connected.stderr
    said = dict(zip(commands, others, strict=True))
    for done in said.values():
        assert "a secret" not in done.stdout + done.stderr and "Traceback" not in done.stderr, done
    assert said["stop"].returncode == 2 and "Access/permission denied" in said["stop"].stderr, said["stop"]
    assert said["resume"].returncode == 2, said["resume"]
    # By Slurm itself, and by the files.
    job = on.ask("squeue", "--noheader", "--format=%i")
    assert "Access/permission denied" in cluster.at("cyd", "scancel", job).stderr
    assert cluster.at("cyd", "grep", "--recursive", "a secret", str(on.shared / "runs")).stdout == ""

    # Where the platform file hides the jobs of others, nobody is told that a job has ended which is hidden.
    with (on.directory / "slurm.conf").open("a") as conf:
        conf.write("PrivateData=jobs\n")
    on.ask("scontrol", "reconfigure")
    wait_for("it is hidden", lambda: cluster.at("cyd", "squeue", "--noheader").stdout.strip() == "")
    hidden = cluster.trainway("cyd", "stop", run)
    assert hidden.returncode == 2 and "hides it from you" in hidden.stderr, hidden
    assert on.ask("squeue", "--noheader", "--format=%t") == "R"
    assert cluster.trainway("ada", "stop", run).returncode == 0
    wait_for("it has stopped", lambda: not on.ask("squeue", "--noheader"))


def test_the_script_and_the_tasks_of_a_job_have_the_role_of_its_account(cluster: Cluster) -> None:
    """The login shell has the role of the first team, which a job of another team must not have."""
    shown = "echo $AWS_CONTAINER_CREDENTIALS_FULL_URI"
    out = cluster.home("ada") / "role.out"
    wrapped = f"--wrap={shown}; srun sh -c '{shown}'"
    first = "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:491/first"
    words = ("sbatch", "--wait", "--account=vision-2", f"--output={out}", wrapped)
    done = cluster.at("ada", "env", first, *words)
    assert done.returncode == 0, done.stderr
    assert out.read_text().split() == ["http://127.0.0.1:491/vision-2"] * 2


# With each change, tests/launch/test_team_data.py shows where runs of a team are.
@pytest.mark.exhaustive
def test_members_of_a_team_keep_their_runs_in_the_directory_of_the_team(cluster: Cluster) -> None:
    on, name = cluster.machines, parameter_name(PLATFORM.name)
    keys = {"aws_access_key_id": "emulator", "aws_secret_access_key": "emulator"}
    here = {"endpoint_url": cluster.emulator.endpoint, "region_name": PLATFORM.region, **keys}
    ssm, s3 = boto3.client("ssm", **here), boto3.client("s3", **here)  # type: ignore[call-overload]
    document = json.loads(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    document |= {"teams": ["vision", "web"], "team_data": {"vision": {"own": ["runs/vision"], "shared": []}}}
    ssm.put_parameter(Name=name, Value=json.dumps(document), Overwrite=True)
    words = ("job.yaml", "--target", "slurm", "--platform", str(PLATFORM_FILE), "--environment")
    runs = {}
    for person in USERS:
        (cluster.home(person) / "job.yaml").write_text(yaml.safe_dump(JOB | {"name": person, "team": "vision"}))
        done = cluster.trainway(person, "launch", *words, str(on.shared / "environment"))
        assert done.returncode == 0, done.stderr
        runs[person] = done.stdout.split()[-1]
        assert (on.shared / "runs/vision" / runs[person]).stat().st_uid == USERS[person]
    run = runs["cyd"]
    on.ask("scancel", "--user=1")
    wait_for("it works", lambda: has_said(on, run, "a secret"))
    assert "a secret" in cluster.trainway("cyd", "logs", run).stdout
    stored = {each["Key"] for each in s3.list_objects_v2(Bucket=document["bucket"], Prefix="runs/vision/")["Contents"]}
    assert f"runs/vision/.registry/{run}.json" in stored
    assert "running" in cluster.trainway("cyd", "status", run).stdout
    assert cluster.trainway("cyd", "stop", run).returncode == 0
    wait_for("it has stopped", lambda: not on.ask("squeue", "--noheader"))
