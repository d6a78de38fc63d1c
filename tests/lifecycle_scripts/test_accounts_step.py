"""The step that puts the teams in force, on a node with systemd; what the program does is in test_slurm_accounts.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.lifecycle_scripts.nodes import Lab, Node, missing, nodes
from tests.lifecycle_scripts.steps import run_step
from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_accounts import slurm_accounts

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

PLATFORM = {
    "name": "atlas",
    "region": "us-west-2",
    "zones": ["usw2-az1"],
    "orchestrator": "hyperpod-slurm",
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 3}],
}
ACCOUNTS = {"slurm_accounts": {"s3_uri": "s3://data/lifecycle_scripts/slurm-accounts.json", "region": "us-west-2"}}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    groups = {"controller": ["ctl"], "train": ["n1"]}
    with nodes(tmp_path_factory.mktemp("lab"), groups, parameters=ACCOUNTS) as made:
        made["ctl"].write("/opt/slurm/etc/slurm.conf", "ClusterName=atlas\n")
        yield made


def timer(node: Node) -> str:
    return node.run("systemctl", "is-active", "trainway-accounts.timer", check=False).stdout.strip()


def test_teams_that_cannot_be_had_are_not_taken_for_teams_in_force(lab: Lab) -> None:
    done = run_step(lab["ctl"], "40-accounts", ACCOUNTS_WAIT_SECONDS="0")
    assert done.returncode == 1
    assert "the teams are not in force after 0 s; `journalctl -u trainway-accounts`" in done.stdout.splitlines()[-1]
    assert timer(lab["ctl"]) == "inactive"


def test_teams_are_followed_by_installed_copies(lab: Lab) -> None:
    folder = lab.s3 / "data/lifecycle_scripts"
    folder.mkdir(parents=True)
    (folder / "slurm-accounts.json").write_text(json.dumps(slurm_accounts(Platform.model_validate(PLATFORM))))
    done = run_step(lab["ctl"], "40-accounts", ACCOUNTS_WAIT_SECONDS="300", ACCOUNTS_RETRY_SECONDS="1")
    assert done.returncode == 0, done.stdout
    assert timer(lab["ctl"]) == "active"
    unit = lab["ctl"].run("systemctl", "cat", "trainway-accounts.service").stdout
    assert "/opt/trainway/slurm_accounts.sh s3://data/lifecycle_scripts/slurm-accounts.json us-west-2" in unit


def test_only_a_controller_keeps_accounts(lab: Lab) -> None:
    done = run_step(lab["n1"], "40-accounts")
    assert (done.returncode, done.stdout) == (0, "no accounts are kept here, nothing to do\n")
