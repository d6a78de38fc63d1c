"""What becomes of the users of a file under Slurm."""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_users import slurm_users


def made(slurm: dict[str, Any], **storage: Any) -> dict[str, Any]:
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 8}
    keys = {"name": "atlas", "region": "us-west-2", "zones": ["usw2-az1"], "orchestrator": "hyperpod-slurm"}
    return slurm_users(Platform.model_validate({**keys, "node_groups": [group], "slurm": slurm, "storage": storage}))


def test_without_users_there_is_a_document_that_takes_away_those_of_an_earlier_file() -> None:
    document = made({})
    assert (document["owner"], document["users"], document["groups"]) == ("trainway/atlas", [], [])


def test_users_are_as_the_file_has_them() -> None:
    ada = {"name": "ada", "uid": 2001, "groups": ["vision"], "keys": [], "sudo": True}
    document = made({"users": [ada], "groups": [{"name": "vision", "gid": 3001}]})
    assert document["users"] == [ada]
    assert document["groups"] == [{"name": "vision", "gid": 3001}]


def test_homes_are_where_all_nodes_find_the_same_ones() -> None:
    on_lustre, on_openzfs = made({}), made({}, home={})
    assert (on_lustre["homes"], on_lustre["mounts"]) == ("/fsx/users", ["/fsx"])
    assert (on_openzfs["homes"], on_openzfs["mounts"]) == ("/home", ["/home", "/fsx"])
    assert on_lustre["directories"] == on_openzfs["directories"] == "/fsx/users"
