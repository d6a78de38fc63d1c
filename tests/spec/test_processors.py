"""No platform has nodes with processors that the training image is not built for."""

from __future__ import annotations

from typing import Any

import pytest

from trainway.spec.facts.catalogue import Catalogue, load_catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.processors import nodes_have_the_processors_that_everything_is_built_for

CATALOGUE = load_catalogue()
ARM = sorted(name for name, instance in CATALOGUE.items() if instance.architecture == "arm64")
# The catalogue has no Arm type without accelerators yet. This one stands for the first that comes.
WITH_GRAVITON = Catalogue(
    {**CATALOGUE, "m8g.2xlarge": CATALOGUE["m7i.2xlarge"].model_copy(update={"architecture": "arm64"})}
)


def refused(catalogue: Catalogue, **changes: Any) -> dict[tuple[str | int, ...], tuple[str, str]]:
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
    breaches = nodes_have_the_processors_that_everything_is_built_for(platform, catalogue)
    return {key: (reason, remedy) for key, reason, remedy in breaches}


def test_the_catalogue_has_an_arm_type_to_refuse() -> None:
    assert "p6e-gb200.36xlarge" in ARM


@pytest.mark.parametrize("name", ARM)
@pytest.mark.parametrize("orchestrator", ["eks", "hyperpod-eks", "hyperpod-slurm"])
def test_a_group_of_an_arm_type_is_refused_with_the_reason(name: str, orchestrator: str) -> None:
    group = {"name": "train", "instance_type": name, "count": 1}
    ((key, (reason, remedy)),) = refused(CATALOGUE, orchestrator=orchestrator, node_groups=[group]).items()
    assert key == ("node_groups", 0, "instance_type")
    assert "arm64" in reason and "built for x86_64" in reason
    assert "p6-b200.48xlarge" in remedy


def test_gpus_that_share_nvlink_across_instances_are_a_second_reason() -> None:
    group = {"name": "train", "instance_type": "p6e-gb200.36xlarge", "count": 1}
    ((reason, _),) = refused(CATALOGUE, node_groups=[group]).values()
    assert "a compute domain that the platform does not set up" in reason


@pytest.mark.parametrize("name", ARM)
def test_an_arm_type_is_refused_as_another_type_of_a_group(name: str) -> None:
    group = {"name": "train", "instance_type": "p5.48xlarge", "or_types": [name], "count": 1}
    assert list(refused(CATALOGUE, node_groups=[group])) == [("node_groups", 0, "or_types", 0)]


def test_system_nodes_controllers_and_login_nodes_are_refused_too() -> None:
    system = {"system_nodes": {"instance_type": "m8g.2xlarge"}}
    ((key, (reason, remedy)),) = refused(WITH_GRAVITON, kubernetes=system).items()
    assert key == ("kubernetes", "system_nodes", "instance_type")
    assert "compute domain" not in reason
    assert "m7i.2xlarge" in remedy
    slurm = {"controller": {"instance_type": "m8g.2xlarge"}, "login": {"instance_type": "m8g.2xlarge"}}
    keys = refused(WITH_GRAVITON, orchestrator="hyperpod-slurm", slurm=slurm)
    assert list(keys) == [("slurm", "controller", "instance_type"), ("slurm", "login", "instance_type")]


def test_every_other_type_of_the_catalogue_is_allowed() -> None:
    for name in sorted(set(CATALOGUE) - set(ARM)):
        assert refused(CATALOGUE, node_groups=[{"name": "train", "instance_type": name, "count": 1}]) == {}
