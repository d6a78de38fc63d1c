"""No platform has nodes with processors that the training image is not built for."""

from __future__ import annotations

from typing import Any

import pytest

from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.processors import nodes_have_the_processors_that_everything_is_built_for

CATALOGUE = load_catalogue()
ARM = sorted(name for name, instance in CATALOGUE.items() if instance.architecture == "arm64")


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
    breaches = nodes_have_the_processors_that_everything_is_built_for(platform, CATALOGUE)
    return {key: (reason, remedy) for key, reason, remedy in breaches}


def test_the_catalogue_has_arm_types_to_refuse() -> None:
    assert {"p6e-gb200.36xlarge", "m8g.2xlarge", "c6gn.16xlarge", "r7gd.large"} <= set(ARM)


@pytest.mark.parametrize("orchestrator", ["eks", "hyperpod-eks", "hyperpod-slurm"])
@pytest.mark.parametrize(
    ("name", "instead"), [("p6e-gb200.36xlarge", "p6-b200.48xlarge"), ("m8g.2xlarge", "m7i.2xlarge")]
)
def test_a_group_of_an_arm_type_is_refused_with_the_reason(name: str, instead: str, orchestrator: str) -> None:
    group = {"name": "train", "instance_type": name, "count": 1}
    ((key, (reason, remedy)),) = refused(orchestrator=orchestrator, node_groups=[group]).items()
    assert key == ("node_groups", 0, "instance_type")
    assert "arm64" in reason and "built for x86_64" in reason
    assert instead in remedy


def test_gpus_that_share_nvlink_across_instances_are_a_second_reason() -> None:
    group = {"name": "train", "instance_type": "p6e-gb200.36xlarge", "count": 1}
    ((reason, _),) = refused(node_groups=[group]).values()
    assert "a compute domain that the platform does not set up" in reason


def test_an_arm_type_is_refused_as_another_type_of_a_group() -> None:
    group = {"name": "train", "instance_type": "p5.48xlarge", "or_types": ["p6e-gb200.36xlarge"], "count": 1}
    assert list(refused(node_groups=[group])) == [("node_groups", 0, "or_types", 0)]


def test_system_nodes_controllers_and_login_nodes_are_refused_too() -> None:
    system = {"system_nodes": {"instance_type": "m8g.2xlarge"}}
    ((key, (reason, remedy)),) = refused(kubernetes=system).items()
    assert key == ("kubernetes", "system_nodes", "instance_type")
    assert "compute domain" not in reason
    assert "m7i.2xlarge" in remedy
    slurm = {"controller": {"instance_type": "m8g.2xlarge"}, "login": {"instance_type": "m8g.2xlarge"}}
    keys = refused(orchestrator="hyperpod-slurm", slurm=slurm)
    assert list(keys) == [("slurm", "controller", "instance_type"), ("slurm", "login", "instance_type")]


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
