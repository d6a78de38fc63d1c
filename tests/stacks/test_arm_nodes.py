"""Arm nodes use the Arm AMI of EKS, and a taint keeps pods with other images off them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.synthesis import all_resources, templates_of
from trainway.manifests import cluster_manifests
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.sections.team import Team

CATALOGUE = load_catalogue()
TAINT = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}
TEAMS = (Team(name="research"),)


def platform_in(directory: Path, orchestrator: str, **changes: Any) -> Platform:
    image = f"111122223333.dkr.ecr.us-west-2.amazonaws.com/data@sha256:{'0' * 64}"
    document = {
        "name": "atlas",
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": orchestrator,
        "node_groups": [
            {"name": "train", "instance_type": "g6e.12xlarge", "count": 1},
            {"name": "data", "instance_type": "m7g.4xlarge", "count": 1, "max_count": 2, "image": "arm"},
        ],
        "images": {"arm": {"uri": image}},
    }
    file = directory / "platform.yaml"
    file.write_text(yaml.safe_dump(document | changes))
    return load_platform(file)


@pytest.fixture(params=["eks", "hyperpod-eks"], scope="module")
def kubernetes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    admins = {"admins": ["arn:aws:iam::111122223333:role/Admin"]}
    return platform_in(tmp_path_factory.mktemp("platform"), request.param, kubernetes=admins)


def test_the_nodes_have_the_taint_from_the_start(kubernetes: Platform) -> None:
    templates = templates_of(kubernetes)
    if kubernetes.orchestrator.is_hyperpod:
        (cluster,) = all_resources(templates, "AWS::SageMaker::Cluster").values()
        groups = {each["InstanceGroupName"]: each for each in cluster["InstanceGroups"]}
        taints = groups["data"]["KubernetesConfig"]["Taints"]
        assert taints == [{name.capitalize(): value for name, value in TAINT.items()}]
    else:
        nodes = all_resources(templates, "AWS::EKS::Nodegroup").values()
        (data,) = [each for each in nodes if each["InstanceTypes"] == ["m7g.4xlarge"]]
        assert data["AmiType"] == "AL2023_ARM_64_STANDARD"
        assert data["Taints"] == [{"Key": "kubernetes.io/arch", "Value": "arm64", "Effect": "NO_SCHEDULE"}]


def test_only_pods_with_the_groups_image_tolerate_the_taint(kubernetes: Platform) -> None:
    objects = cluster_manifests(kubernetes.model_copy(update={"teams": TEAMS}), CATALOGUE).values()
    named = {(each["kind"], each["metadata"]["name"]): each for each in objects if "kind" in each}
    flavors = [each for (kind, name), each in named.items() if kind == "ResourceFlavor" and name.startswith("data-")]
    # HyperPod's task governance makes its own flavors.
    assert len(flavors) == (0 if kubernetes.orchestrator.is_hyperpod else 1)
    assert all(flavor["spec"]["nodeTaints"] == [TAINT] for flavor in flavors)
    tolerated = {
        name: "kubernetes.io/arch" in json.dumps(each)
        for (kind, name), each in named.items()
        if kind == "ClusterTrainingRuntime"
    }
    assert tolerated == {"trainway-torch": False, "trainway-torch-data": True}


def test_slurm_has_heads_with_arm_processors(tmp_path: Path) -> None:
    heads = {"controller": {"instance_type": "m7g.2xlarge"}, "login": {"instance_type": "m7g.2xlarge"}}
    train = [{"name": "train", "instance_type": "g6e.12xlarge", "count": 1}]
    slurm = platform_in(tmp_path, "hyperpod-slurm", node_groups=train, slurm=heads, images={})
    (cluster,) = all_resources(templates_of(slurm), "AWS::SageMaker::Cluster").values()
    types = sorted(each["InstanceType"] for each in cluster["InstanceGroups"])
    assert types == ["ml.g6e.12xlarge", "ml.m7g.2xlarge", "ml.m7g.2xlarge"]
