"""What the stacks do for the devices of nodes: labels, what may be copied, and what a launcher is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hand_offs import hand_off_in
from tests.people import with_people
from tests.synthesis import EXAMPLES, Template, assembly_in, resources, templates_of

BASE = yaml.safe_load(next(file for file in EXAMPLES if file.stem == "eks-p5").read_text())


def synthesized(directory: Path, **keys: Any) -> dict[str, Template]:
    file = directory / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people({**BASE, "teams": [], **keys})))
    return templates_of(file)


def handed_off(directory: Path) -> dict[str, Any]:
    """Return the node groups of the hand-off by name."""
    return {
        each.name: each.model_dump(mode="json")
        for each in hand_off_in(assembly_in(directory / "platform.yaml")).node_groups
    }


def test_nodes_with_divided_gpus_say_so_and_others_do_not(tmp_path: Path) -> None:
    groups = [
        {"name": "train", "instance_type": "p5.48xlarge", "count": 1},
        {"name": "play", "instance_type": "p5.48xlarge", "count": 1, "mig": "1g.10gb"},
    ]
    made = synthesized(tmp_path, kubernetes={"gpu_devices": "operator"}, node_groups=groups)
    labels = [each["Labels"] for each in resources(made["cluster"], "AWS::EKS::Nodegroup").values()]
    by_group = {each["trainway.dev/nodes"]: each.get("nvidia.com/mig.config") for each in labels}
    assert (by_group["train"], by_group["play"]) == (None, "trainway-play")
    nodes = handed_off(tmp_path)
    assert nodes["play"]["devices"] == {"nvidia.com/mig-1g.10gb": 56, "vpc.amazonaws.com/efa": 32}
    assert (nodes["play"]["ranks"], nodes["train"]["ranks"]) == (1, 8)


@pytest.mark.parametrize(
    ("asked", "devices", "claims", "runtime"),
    [
        ({}, {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}, [], "trainway-torch"),
        ({"efa_devices": "dra"}, {"nvidia.com/gpu": 8}, ["efa-32"], "trainway-torch-train"),
        ({"gpu_devices": "dra"}, {}, ["gpu-8", "efa-32"], "trainway-torch-train"),
    ],
    ids=str,
)
def test_a_launcher_is_told_what_to_request_and_what_to_name(
    asked: dict[str, str], devices: dict[str, int], claims: list[str], runtime: str, tmp_path: Path
) -> None:
    synthesized(tmp_path, kubernetes=asked)
    nodes = handed_off(tmp_path)["train"]
    assert (nodes["devices"], nodes["claims"], nodes["runtime"]) == (devices, claims, runtime)


@pytest.mark.parametrize(
    ("keys", "may"),
    [
        ({"kubernetes": {"efa_devices": "dra"}}, True),
        ({"kubernetes": {}}, False),
        ({"kubernetes": {"efa_devices": "dra"}, "network": "closed"}, False),
    ],
    ids=["DRA driver", "device plugin", "closed network"],
)
def test_the_mirror_may_copy_from_awss_own_registry_what_it_copies_from_there(
    keys: dict[str, Any], may: bool, tmp_path: Path
) -> None:
    policies = resources(synthesized(tmp_path, **keys)["mirror"], "AWS::IAM::Policy").values()
    statements = [each for policy in policies for each in policy["PolicyDocument"]["Statement"]]
    of_aws = [each for each in statements if "602401143452" in json.dumps(each["Resource"])]
    assert bool(of_aws) == may
    for statement in of_aws:
        assert json.dumps(statement["Resource"]).endswith(':ecr:us-west-2:602401143452:repository/eks/dranet"]]}')
        assert "ecr:PutImage" not in statement["Action"]
