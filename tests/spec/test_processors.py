"""Nodes with Arm processors run only what is built for them."""

from __future__ import annotations

from typing import Any

import pytest

from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.image.rules import arm_nodes_have_what_is_built_for_arm
from trainway.spec.platform import Platform

CATALOGUE = load_catalogue()
ARM = sorted(name for name, instance in CATALOGUE.items() if instance.architecture == "arm64")
OWN = {"data": {"uri": f"111122223333.dkr.ecr.us-west-2.amazonaws.com/data@sha256:{'0' * 64}"}}


def refused(**changes: Any) -> dict[tuple[str | int, ...], tuple[str, str]]:
    """Return the reason and the remedy of each breach, by the key."""
    platform = Platform.model_validate(
        {
            "name": "atlas",
            "region": "us-west-2",
            "zones": ["usw2-az2", "usw2-az1"],
            "orchestrator": "eks",
            "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}],
            **changes,
        }
    )
    breaches = arm_nodes_have_what_is_built_for_arm(platform, CATALOGUE)
    return {key: (reason, remedy) for key, reason, remedy in breaches}


def data_nodes(**keys: Any) -> list[dict[str, Any]]:
    return [{"name": "data", "instance_type": "m8g.2xlarge", "count": 1, **keys}]


def test_the_catalogue_has_arm_types() -> None:
    assert {"p6e-gb200.36xlarge", "m8g.2xlarge", "c6gn.16xlarge", "r7gd.large"} <= set(ARM)


@pytest.mark.parametrize("orchestrator", ["eks", "hyperpod-eks", "hyperpod-slurm"])
def test_accelerators_beside_arm_processors_are_refused_with_both_reasons(orchestrator: str) -> None:
    group = {"name": "train", "instance_type": "p6e-gb200.36xlarge", "count": 1, "image": "data"}
    ((key, (reason, remedy)),) = refused(orchestrator=orchestrator, node_groups=[group], images=OWN).items()
    assert key == ("node_groups", 0, "instance_type")
    assert "arm64" in reason and "built for x86_64" in reason
    assert "a compute domain that the platform does not set up" in reason
    assert "p6-b200.48xlarge" in remedy


@pytest.mark.parametrize("orchestrator", ["eks", "hyperpod-eks"])
def test_data_nodes_of_kubernetes_are_arm_nodes_with_an_image_of_your_own(orchestrator: str) -> None:
    for without in (data_nodes(), data_nodes(image="built")):
        images = {"built": {"packages": {"apt": ["jq"]}}}
        ((key, (reason, remedy)),) = refused(orchestrator=orchestrator, node_groups=without, images=images).items()
        assert key == ("node_groups", 0, "instance_type")
        assert "the image that the deploy builds for its jobs is for x86_64" in reason
        assert "images: {NAME: {uri: …}}" in remedy and "m7i.2xlarge" in remedy
    assert not refused(orchestrator=orchestrator, node_groups=data_nodes(image="data"), images=OWN)
    assert not refused(orchestrator=orchestrator, node_groups=data_nodes(), image=OWN["data"])


def test_slurm_has_arm_controllers_and_login_nodes_and_no_arm_compute_nodes() -> None:
    heads = {"controller": {"instance_type": "m8g.2xlarge"}, "login": {"instance_type": "m8g.2xlarge"}}
    assert not refused(orchestrator="hyperpod-slurm", slurm=heads)
    compute = refused(orchestrator="hyperpod-slurm", node_groups=data_nodes(image="data"), images=OWN)
    ((key, (reason, remedy)),) = compute.items()
    assert key == ("node_groups", 0, "instance_type")
    assert "virtual environments that compute nodes share" in reason and "m7i.2xlarge" in remedy


def test_system_nodes_are_refused() -> None:
    ((key, (reason, remedy)),) = refused(kubernetes={"system_nodes": {"instance_type": "m8g.2xlarge"}}).items()
    assert key == ("kubernetes", "system_nodes", "instance_type")
    assert "arm64" in reason and "m7i.2xlarge" in remedy


def test_an_arm_type_is_refused_as_another_type_of_a_group() -> None:
    group = {"name": "train", "instance_type": "p5.48xlarge", "or_types": ["p6e-gb200.36xlarge"], "count": 1}
    assert list(refused(node_groups=[group])) == [("node_groups", 0, "or_types", 0)]


def test_arm_types_are_all_that_is_refused() -> None:
    for at in range(0, len(CATALOGUE), 20):
        names = list(CATALOGUE)[at : at + 20]
        group = {"name": "train", "instance_type": names[0], "or_types": names[1:], "count": 1}
        found = refused(node_groups=[group])
        asked = {
            name: ("node_groups", 0, *(("or_types", n - 1) if n else ("instance_type",)))
            for n, name in enumerate(names)
        }
        assert set(found) == {key for name, key in asked.items() if name in ARM}
