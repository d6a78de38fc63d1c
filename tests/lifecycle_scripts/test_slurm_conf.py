"""What Slurm's configuration is made of, and whom the platform's settings leave alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lifecycle_scripts.node_facts import nodes
from lifecycle_scripts.slurm.node_checks import FATAL_XIDS
from lifecycle_scripts.slurm.platform_settings import settings
from lifecycle_scripts.slurm_conf import files
from lifecycle_scripts.slurm_settings import with_settings
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.platform import Platform
from trainway.spec.slurm.rules import HEALTH_SETTINGS, LOGIN_SETTINGS, PRIVATE_SETTINGS
from trainway.spec.slurm.slurm_nodes import slurm_nodes

ROOT = Path(__file__).resolve().parents[2]
PLATFORM = {
    "name": "atlas",
    "region": "us-west-2",
    "zones": ["usw2-az1"],
    "orchestrator": "hyperpod-slurm",
    "node_groups": [
        {"name": "train", "instance_type": "p5.48xlarge", "count": 3},
        {"name": "chips", "instance_type": "trn2.48xlarge", "count": 1},
    ],
}


def made(*, labels: bool = True, controllers: int = 1, **parameters: Any) -> dict[str, str]:
    """The files of a cluster of four nodes, two of which are below one switch."""
    plan = slurm_nodes(Platform.model_validate(PLATFORM), load_catalogue()).model_dump(mode="json")
    given = {"orchestrator": "hyperpod-slurm", "controller_group": "controller", "slurm": plan, **parameters}
    places = {"10.0.1.1": "abc", "10.0.1.2": "abc", "10.0.1.3": "abd", "10.0.1.4": "xyz"}

    def instance(address: str) -> dict[str, Any]:
        layers = {f"topology.k8s.aws/network-node-layer-{n}": f"nn-{places[address][:n]}" for n in (1, 2, 3)}
        return {"CustomerIpAddress": address, "InstanceLabel": layers if labels else None}

    heads = [{"CustomerIpAddress": f"10.0.0.{number}"} for number in range(1, controllers + 1)]
    groups = [
        {"Name": "controller", "InstanceType": "ml.m7i.2xlarge", "Instances": heads},
        {"Name": "train", "InstanceType": "ml.p5.48xlarge", "Instances": [instance(f"10.0.1.{n}") for n in (1, 2, 3)]},
        {"Name": "chips", "InstanceType": "ml.trn2.48xlarge", "Instances": [instance("10.0.1.4")]},
    ]
    config = {"InstanceGroups": groups, "SlurmConfig": {"PrimaryControllerIp": f"10.0.0.{controllers}"}}
    return files(nodes(config, given), given, "atlas", "/fsx/shared")


def test_a_node_has_what_its_type_has_and_each_group_a_partition() -> None:
    lines = made()["slurm.conf"].splitlines()
    has = f"CPUs=192 RealMemory={int(2048 * 1024 * 0.95)} Gres=gpu:h100:8 Feature=train"
    assert f"NodeName=ip-10-0-1-1 NodeAddr=10.0.1.1 {has} State=UNKNOWN" in lines
    assert "GresTypes=gpu,neuron" in lines
    assert "PartitionName=train Nodes=train-nodes Default=YES MaxTime=INFINITE State=UP" in lines
    assert "PartitionName=chips Nodes=chips-nodes Default=NO MaxTime=INFINITE State=UP" in lines


def test_each_device_is_named_so_that_a_lost_one_is_missed() -> None:
    lines = made()["gres.conf"].splitlines()
    assert lines[0] == "NodeName=ip-10-0-1-1 Name=gpu Type=h100 File=/dev/nvidia[0-7]"
    assert lines[3] == "NodeName=ip-10-0-1-4 Name=neuron Type=trainium2 File=/dev/neuron[0-15]"


def test_ec2s_network_nodes_are_switches_all_of_which_are_connected() -> None:
    assert made()["topology.conf"].splitlines() == [
        "SwitchName=nn-abc Nodes=ip-10-0-1-1,ip-10-0-1-2",
        "SwitchName=nn-abd Nodes=ip-10-0-1-3",
        "SwitchName=nn-xyz Nodes=ip-10-0-1-4",
        "SwitchName=nn-a Switches=nn-ab",
        "SwitchName=nn-ab Switches=nn-abc,nn-abd",
        "SwitchName=nn-x Switches=nn-xy",
        "SwitchName=nn-xy Switches=nn-xyz",
        "SwitchName=all Switches=nn-a,nn-x",
    ]
    assert "TopologyPlugin=topology/tree" in made()["slurm.conf"]


def test_without_every_nodes_place_there_is_no_topology() -> None:
    found = made(labels=False)
    assert found["topology.conf"] == "" and "TopologyPlugin" not in found["slurm.conf"]


def test_several_controllers_share_their_state_and_hyperpods_first_is_first() -> None:
    lines = made(controllers=2)["slurm.conf"].splitlines()
    assert [line for line in lines if line.startswith("SlurmctldHost")] == [
        "SlurmctldHost=ip-10-0-0-2(10.0.0.2)",
        "SlurmctldHost=ip-10-0-0-1(10.0.0.1)",
    ]
    assert "StateSaveLocation=/fsx/shared/state" in lines
    assert "StateSaveLocation=/var/spool/slurmctld" in made()["slurm.conf"]


def test_nodes_of_a_type_that_the_platform_does_not_know_join_by_themselves() -> None:
    text = made(slurm=None)["slurm.conf"]
    assert "NodeName=" not in text and "NodeSet=train-nodes Feature=train" in text


ABOVE = "ClusterName=x\nSchedulerParameters=defer,max_rpc_cnt=20\nKillWait=30\n"


def test_settings_win_over_what_is_above_and_lists_are_added_to() -> None:
    text = with_settings(ABOVE, "platform", {"KillWait": "60", "SchedulerParameters": "nohold_on_prolog_fail,defer"})
    assert text.startswith(ABOVE)
    assert "\nKillWait=60\nSchedulerParameters=defer,max_rpc_cnt=20,nohold_on_prolog_fail\n" in text
    assert with_settings(text, "platform", {"KillWait": "60"}).count("KillWait") == 2
    assert with_settings(text, "platform", {}) == ABOVE


def test_a_setting_that_is_in_force_above_is_not_repeated() -> None:
    same = {"KillWait": "30", "SchedulerParameters": "defer"}
    assert with_settings(ABOVE, "platform", same) == ABOVE
    text = with_settings(ABOVE, "platform", {**same, "ReturnToService": "1"})
    assert text.count("KillWait") == text.count("SchedulerParameters") == 1
    assert "\nReturnToService=1\n" in text


def test_the_parts_of_slurm_conf_leave_each_other_alone() -> None:
    teams = with_settings(ABOVE, "teams", {"PriorityType": "priority/multifactor"})
    both = with_settings(teams, "platform", {"KillWait": "60"})
    assert with_settings(both, "platform", {}) == teams
    assert "KillWait=60" in with_settings(both, "teams", {})


@pytest.mark.parametrize(
    ("version", "prolog"),
    [
        ("slurm-wlm 22.05.8", "/there/prolog.sh"),
        ("slurm 23.02.7", "/there/prolog.sh"),
        ("slurm 23.11.0", "trainway-prolog.sh"),
        ("slurm 25.05.3", "trainway-prolog.sh"),
        ("", "/there/prolog.sh"),
    ],
)
def test_slurm_brings_the_prolog_where_it_can(version: str, prolog: str) -> None:
    assert settings({"health_checks": True}, version, "/there")["Prolog"] == prolog


def test_what_the_platform_writes_may_not_be_set_otherwise() -> None:
    plan = {"health_checks": True, "login_needs_job": True, "private_tmp": True}
    written = [settings(plan, version, "/there").keys() for version in ("slurm 25.05.3", "slurm 25.11.0")]
    assert set().union(*written) == {*HEALTH_SETTINGS, *LOGIN_SETTINGS, *PRIVATE_SETTINGS}
    assert settings({}, "slurm 25.05.3", "/there") == {}
    assert settings({"job_walls": False}, "slurm 25.05.3", "/there") == {}
    for walls in (settings({"job_walls": choice}, "slurm 25.05.3", "/there") for choice in (True, None)):
        # A platform may choose other ports for srun.
        assert walls.keys() - {"SrunPortRange"} <= set(HEALTH_SETTINGS) and walls["Prolog"] and walls["Epilog"]
        assert walls["PrologFlags"] == "Alloc" and "HealthCheckProgram" not in walls
    chosen = {"job_walls": None, "settings": {"SrunPortRange": "50000-52000"}}
    assert settings(chosen, "slurm 25.05.3", "/there")["SrunPortRange"] == "50000-52000"


def test_the_xids_that_drain_a_node_are_those_that_explain_calls_causes() -> None:
    known = yaml.safe_load((ROOT / "trainway/spec/facts/xids.yaml").read_text())
    assert {number for number, facts in known.items() if facts["level"] == "cause"} == FATAL_XIDS
