"""What becomes of the teams of a file under Slurm."""

from __future__ import annotations

from typing import Any

from lifecycle_scripts.slurm_settings import with_settings
from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_accounts import SETTINGS, slurm_accounts

P5 = "p5.48xlarge"


def made(*teams: dict[str, Any]) -> dict[str, Any]:
    group = {"name": "train", "instance_type": P5, "count": 8}
    keys = {"name": "atlas", "region": "us-west-2", "zones": ["usw2-az1"], "orchestrator": "hyperpod-slurm"}
    return slurm_accounts(Platform.model_validate({**keys, "node_groups": [group], "teams": list(teams)}))


def test_without_teams_there_is_nothing_and_nothing_stays() -> None:
    document = made()
    assert (document["qos"], document["accounts"], document["settings"]) == ([], [], {})


def test_guaranteed_nodes_are_those_of_a_qos_that_takes_them_back_from_borrowers() -> None:
    document = made({"name": "research", "guarantee": {P5: 3}}, {"name": "guests"})
    borrowed, research = document["qos"]
    assert (borrowed["name"], borrowed["nodes"], borrowed["preempts"]) == ("borrowed", None, [])
    assert (research["name"], research["nodes"], research["preempts"]) == ("research", 3, ["borrowed"])
    assert research["priority"] > borrowed["priority"]
    # Of a job that ends well within it, Slurm thinks that it is done.
    assert all("grace" not in key for qos in document["qos"] for key in qos)
    assert (SETTINGS["PreemptMode"], int(SETTINGS["KillWait"]) >= 60) == ("REQUEUE", True)


def test_a_job_that_names_no_qos_is_on_what_its_team_is_guaranteed() -> None:
    teams: list[dict[str, Any]] = [
        {"name": "research", "guarantee": {P5: 3}},
        {"name": "guests"},
        {"name": "none", "guarantee": {P5: 0}},
    ]
    assert [account["qos"] for account in made(*teams)["accounts"]] == [
        ["research", "borrowed"],
        ["borrowed"],
        ["borrowed"],
    ]


def test_who_does_not_borrow_has_guaranteed_nodes_and_no_others() -> None:
    document = made({"name": "fixed", "guarantee": {P5: 1}, "borrow": False}, {"name": "waits", "borrow": False})
    assert [account["qos"] for account in document["accounts"]] == [["fixed"], ["waits"]]
    assert {qos["name"]: qos["nodes"] for qos in document["qos"]} == {"borrowed": None, "fixed": 1, "waits": 0}


def test_shares_go_by_priority() -> None:
    accounts = made(*({"name": priority, "priority": priority} for priority in ("low", "normal", "high")))["accounts"]
    low, normal, high = (account["fair_share"] for account in accounts)
    assert low < normal < high


def test_what_is_guaranteed_outweighs_shares_and_shares_outweigh_waiting() -> None:
    qos, share, age = (int(SETTINGS[f"PriorityWeight{what}"]) for what in ("QOS", "Fairshare", "Age"))
    assert qos > 10 * share > 10 * age > 0


def test_settings_are_the_end_of_slurm_conf_and_go_without_a_trace() -> None:
    before = "ClusterName=lab\nPriorityType=priority/basic\nPartitionName=dev Nodes=ALL\n"
    after = with_settings(before, "teams", SETTINGS)
    assert after.startswith(before)
    assert after.index("PriorityType=priority/multifactor") > after.index("PriorityType=priority/basic")
    assert with_settings(after, "teams", SETTINGS) == after
    assert with_settings(after, "teams", {}) == before
    # What HyperPod writes behind them stays, in front of them.
    grown = with_settings(after + "NodeName=ip-10-0-0-1 CPUs=192\n", "teams", SETTINGS)
    assert grown.index("NodeName=ip-10-0-0-1") < grown.index("PriorityType=priority/multifactor")
    assert grown.count("PriorityWeightQOS") == 1
