"""Teams on a real Slurm cluster: who may run how much, who goes first, and who gives nodes back."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lifecycle_scripts.slurm_accounts import BEGIN
from tests.lifecycle_scripts.slurm_cluster import SlurmCluster, missing, slurm_cluster, wait_for
from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_accounts import slurm_accounts

SCRIPT = Path(__file__).resolve().parents[2] / "lifecycle_scripts" / "slurm_accounts.sh"
RESEARCH = {"name": "research", "guarantee": {"p5.48xlarge": 2}, "priority": "high", "users": ["games", "news"]}
GUESTS = {"name": "guests", "users": ["mail", "news"]}
FIXED = {"name": "fixed", "guarantee": {"p5.48xlarge": 1}, "borrow": False, "priority": "low", "users": ["uucp"]}

WHY_NOT = missing()
# Where continuous integration runs, a missing Slurm fails instead.
needs_slurm = pytest.mark.skipif(WHY_NOT is not None and "CI" not in os.environ, reason=WHY_NOT or "")
pytestmark = needs_slurm


def document(*teams: dict[str, Any]) -> dict[str, Any]:
    """Return the accounts of a platform with three nodes and these teams. Slurm kills a stopped job after a second.

    The cluster of these tests has accounts only, and no roles of teams.
    """
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 3}
    keys: dict[str, Any] = {"name": "atlas", "region": "us-west-2", "zones": ["usw2-az1"]}
    keys |= {"orchestrator": "hyperpod-slurm", "storage": {"bucket": {"team_prefixes": False}}}
    made = slurm_accounts(Platform.model_validate({**keys, "node_groups": [group], "teams": list(teams)}))
    return made | {"settings": made["settings"] | ({"KillWait": "1"} if teams else {})}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory() as directory:
        # Jobs of other users enter it for their scripts.
        Path(directory).chmod(0o711)
        with slurm_cluster(Path(directory), ["n1", "n2", "n3"]) as running:
            yield running


# What the controller has and this machine has not: a systemd that runs Slurm, and S3, which is a folder here.
STAND_INS = {
    "systemctl": """
[ "$*" = "restart slurmctld" ] || exit 1
touch "$ASKED"
while [ -e "$ASKED" ]; do sleep 0.1; done
""",
    "aws": """
[ "$1 $2 $5 $6 $7" = "s3 cp --region us-west-2 --only-show-errors" ] || exit 1
cp "${3#s3:/}" "$4"
""",
}


def run(cluster: SlurmCluster, made: dict[str, Any], **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the script as the controller does; what systemd would restart is restarted from here."""
    file, asked, bin_, home = (cluster.directory / name for name in ("accounts.json", "asked", "bin", "home"))
    file.write_text(json.dumps(made))
    for name, body in STAND_INS.items():
        bin_.mkdir(exist_ok=True)
        (bin_ / name).write_text(f"#!/bin/sh{body}")
        (bin_ / name).chmod(0o755)
    if not home.exists():
        home.mkdir()
        (home / "etc").symlink_to(cluster.conf.parent)
    path = f"{bin_}{os.pathsep}{cluster.environment['PATH']}"
    environment = {**cluster.environment, "PATH": path, "SLURM_HOME": str(home), "ASKED": str(asked), **variables}
    command = ["bash", str(SCRIPT), f"s3:/{file}", "us-west-2"]
    program = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while program.poll() is None:
        if asked.exists():
            cluster.restart_controller()
            asked.unlink()
        with suppress(subprocess.TimeoutExpired):
            program.wait(0.1)
    return subprocess.CompletedProcess(command, program.returncode, *program.communicate())


def apply(cluster: SlurmCluster, made: dict[str, Any]) -> list[str]:
    """The changes that the program says it made."""
    done = run(cluster, made)
    assert done.returncode == 0, done.stderr
    cluster.in_force = made
    return done.stdout.splitlines()


@pytest.fixture
def teams(cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster with all three teams, and without jobs."""
    if cluster.in_force != (everybody := document(RESEARCH, GUESTS, FIXED)):
        apply(cluster, everybody)
    yield cluster
    cluster.cancel_all()


def test_a_second_run_changes_nothing(cluster: SlurmCluster) -> None:
    assert apply(cluster, document(RESEARCH, GUESTS, FIXED))
    assert apply(cluster, document(RESEARCH, GUESTS, FIXED)) == []


def test_jobs_are_in_the_first_team_of_their_user_and_nobody_else_runs_any(teams: SlurmCluster) -> None:
    for user, account, qos in (
        ("games", "research", "research"),
        ("news", "research", "research"),
        ("mail", "guests", "borrowed"),
    ):
        job = teams.submit(user, 1)
        assert teams.ask("squeue", "--noheader", f"--jobs={job}", "--format=%a %q") == f"{account} {qos}"
    job = teams.submit("news", 1, "--account=guests")
    assert teams.ask("squeue", "--noheader", f"--jobs={job}", "--format=%a %q") == "guests borrowed"
    assert "Invalid account" in teams.submit("backup", 1, check=False)
    assert "Invalid account" in teams.submit("games", 1, "--account=guests", check=False)


def test_a_team_that_does_not_borrow_is_held_to_its_nodes(teams: SlurmCluster) -> None:
    first, second = teams.submit("uucp", 1), teams.submit("uucp", 1)
    teams.becomes(first, "RUNNING")
    teams.becomes(second, "PENDING QOSGrpNodeLimit")
    assert "QOS" in teams.submit("uucp", 2, check=False)
    assert "Invalid qos" in teams.submit("uucp", 1, "--qos=borrowed", check=False)


# What a job does that is asked to end: it saves, and ends well.
SAVES = (
    "srun --ntasks=1 sh -c "
    "'trap \"echo saved >>{file}; exit 0\" TERM; echo began >>{file}; while :; do sleep 0.1; done'"
)


def test_what_is_guaranteed_is_taken_back_from_a_borrower_who_saves_and_begins_again_later(teams: SlurmCluster) -> None:
    saved = teams.directory / "saved"
    saved.touch()
    saved.chmod(0o666)
    borrower = teams.submit("mail", 3, script=SAVES.format(file=saved))
    teams.becomes(borrower, "RUNNING")
    # Slurm lists a step before the step's program handles signals.
    wait_for("its program runs", lambda: "began" in saved.read_text())
    owner = teams.submit("games", 2)
    teams.becomes(owner, "RUNNING")
    teams.becomes(borrower, "PENDING")
    assert "saved" in saved.read_text()
    assert "Restarts=1" in teams.ask("scontrol", "show", "job", borrower)
    # Past its guarantee it takes nothing from anybody.
    more = teams.submit("news", 1)
    teams.becomes(more, "PENDING QOSGrpNodeLimit")


def test_of_two_that_borrow_the_one_that_had_less_of_its_share_goes_first(teams: SlurmCluster) -> None:
    # Both had nothing and then the same, and research has twice the share of guests.
    for account in ("research", "guests"):
        teams.ask("sacctmgr", "--immediate", "modify", "account", account, "set", "rawusage=0")
    began = []
    for user in ("games", "mail"):
        teams.becomes(teams.submit(user, 1, "--qos=borrowed"), "RUNNING")
        began.append(time.monotonic())
    # The later job may begin late. Both run until the difference is small.
    time.sleep(2 + 4 * (began[1] - began[0]))
    teams.cancel_all()
    # Slurm works shares out every five minutes, and as it starts.
    teams.start_controller()
    teams.becomes(teams.submit("games", 2), "RUNNING")
    first, second = (teams.submit(user, 2, "--qos=borrowed") for user in ("mail", "games"))
    listed = teams.ask("sprio", "--noheader", "--format=%i %F %Y").splitlines()
    priorities = {job: (int(share), int(total)) for job, share, total in map(str.split, listed)}
    assert priorities[second][0] > priorities[first][0]
    assert priorities[second][1] > priorities[first][1]


def test_a_team_that_left_takes_no_new_jobs_and_is_gone_after_its_last(teams: SlurmCluster) -> None:
    job = teams.submit("mail", 1)
    teams.becomes(job, "RUNNING")
    apply(teams, document(RESEARCH, FIXED))
    assert teams.submit("mail", 1, check=False).startswith("sbatch: error")
    assert teams.state(job) == "RUNNING"
    # Had it come back meanwhile, it would be as it was.
    apply(teams, document(RESEARCH, GUESTS, FIXED))
    assert teams.submit("mail", 1).isdecimal()
    teams.cancel_all()
    apply(teams, document(RESEARCH, FIXED))
    assert names(teams, "associations", "account") == {"root", "research", "fixed"}
    assert apply(teams, document(RESEARCH, FIXED)) == []


def test_a_qos_stays_until_the_last_job_that_is_in_it_has_ended(teams: SlurmCluster) -> None:
    job = teams.submit("games", 1)
    teams.becomes(job, "RUNNING")
    apply(teams, document({**RESEARCH, "guarantee": {}}, GUESTS, FIXED))
    assert "research" in names(teams, "qos", "name")
    assert teams.state(job) == "RUNNING"
    teams.cancel_all()
    apply(teams, document({**RESEARCH, "guarantee": {}}, GUESTS, FIXED))
    assert names(teams, "qos", "name") == {"normal", "borrowed", "fixed"}


def test_settings_that_slurmctld_does_not_start_with_are_taken_back(teams: SlurmCluster) -> None:
    before, broken = teams.conf.read_text(), document(RESEARCH, GUESTS, FIXED)
    broken["settings"] = {**broken["settings"], "PreemptType": "preempt/nonsense"}
    done = run(teams, broken, SLURM_ANSWER_SECONDS="3")
    assert done.returncode == 1
    assert "is as it was, without" in done.stderr and "PreemptType=preempt/nonsense" in done.stderr
    assert teams.conf.read_text() == before
    assert teams.are_idle()


def test_what_somebody_else_made_stays(teams: SlurmCluster) -> None:
    teams.ask("sacctmgr", "--immediate", "add", "account", "physics", "organization=university")
    teams.ask("sacctmgr", "--immediate", "add", "user", "games", "account=physics")
    assert apply(teams, document(RESEARCH, GUESTS, FIXED)) == []
    apply(teams, document())
    assert names(teams, "associations", "account") == {"root", "physics"}
    assert names(teams, "user", "defaultaccount") == {"root", "physics"}
    assert BEGIN not in teams.conf.read_text()


def names(cluster: SlurmCluster, what: str, column: str) -> set[str]:
    return set(cluster.ask("sacctmgr", "--noheader", "--parsable2", "show", what, f"format={column}").split())
