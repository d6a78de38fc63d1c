"""Which nodes reach the file system over EFA, and with how many devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.anywhere import ANYWHERE
from tests.people import with_people
from tests.synthesis import ROOT
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.loader import load_platform
from trainway.spec.network.addressing import plan_addresses
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError
from trainway.spec.storage.lustre_clients import efa_interfaces, speaks_efa, transport

CATALOGUE = load_catalogue()
EFA = {"lustre": {"capacity_tib": 9.6, "throughput_mbps_per_tib": 500, "efa": True}}


def platform(tmp_path: Path, *groups: dict[str, Any], storage: dict[str, Any] = EFA) -> Platform:
    file = tmp_path / "platform.yaml"
    base = {
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": "eks",
        "storage": storage,
        "accept": ANYWHERE,
    }
    numbered = [{"name": f"group-{number}", "count": 0, **group} for number, group in enumerate(groups)]
    file.write_text(yaml.safe_dump(with_people(base | {"node_groups": numbered})))
    return load_platform(file)


def transports(asked: Platform) -> list[str]:
    plan = plan_addresses(asked, CATALOGUE)
    return [transport(asked, group, CATALOGUE, plan)[0] for group in asked.node_groups]


@pytest.mark.parametrize(
    ("instance_type", "by"),
    [
        ("p5.48xlarge", "EFA, fit for GPUDirect"),
        ("p6-b200.48xlarge", "EFA, fit for GPUDirect"),
        ("p6-b300.48xlarge", "EFA"),
        ("g6e.48xlarge", "EFA"),
        ("g6.48xlarge", "EFA"),
    ],
)
def test_nodes_since_nitro_v4_reach_it_over_efa(instance_type: str, by: str, tmp_path: Path) -> None:
    assert transports(platform(tmp_path, {"instance_type": instance_type, "max_count": 2})) == [by]


@pytest.mark.parametrize("instance_type", ["p4d.24xlarge", "p4de.24xlarge", "g5.48xlarge", "trn2.48xlarge"])
def test_earlier_ones_and_trn2_do_not(instance_type: str, tmp_path: Path) -> None:
    beside = platform(
        tmp_path, {"instance_type": "p5.48xlarge", "max_count": 2}, {"instance_type": instance_type, "max_count": 2}
    )
    assert transports(beside) == ["EFA, fit for GPUDirect", "TCP"]
    with pytest.raises(SpecError, match="Nitro v4"):
        platform(tmp_path, {"instance_type": instance_type, "max_count": 2})


def test_efa_ends_at_the_zone(tmp_path: Path) -> None:
    here = {"instance_type": "p5.48xlarge", "max_count": 2}
    there = {**here, "zone": "usw2-az1"}
    assert transports(platform(tmp_path, here, there)) == ["EFA, fit for GPUDirect", "TCP"]
    with pytest.raises(SpecError, match="stays within a zone"):
        platform(tmp_path, {"instance_type": "m7i.8xlarge", "max_count": 2}, there)


def test_a_group_with_a_range_of_its_own_is_too_far_away(tmp_path: Path) -> None:
    written = yaml.safe_load((ROOT / "examples" / "hyperpod-eks-p5.yaml").read_text())
    # More nodes than there is room for beside the file system.
    written["node_groups"][0]["max_count"] = 128
    (tmp_path / "platform.yaml").write_text(yaml.safe_dump(written))
    asked = load_platform(tmp_path / "platform.yaml")
    (_, why) = transport(asked, asked.node_groups[0], CATALOGUE, plan_addresses(asked, CATALOGUE))
    assert why == "the file system is in 10.0.0.0/16, the nodes in 100.64.0.0/16"


def test_all_nodes_together_stay_within_the_connections_of_a_file_system(tmp_path: Path) -> None:
    few = platform(tmp_path, {"instance_type": "p5.48xlarge", "max_count": 70})
    assert efa_interfaces(few, CATALOGUE) == {"group-0": 8}
    types = ("p5.48xlarge", "p5en.48xlarge", "g6e.48xlarge")
    many = platform(tmp_path, *({"instance_type": name, "max_count": 70} for name in types))
    found = efa_interfaces(many, CATALOGUE)
    assert found == {"group-0": 1024 // 210, "group-1": 1024 // 210, "group-2": 2}
    assert 70 * sum(found.values()) <= service_facts().lustre.efa_connections


def test_more_nodes_than_connections_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="1024 connections over EFA"):
        platform(tmp_path, {"instance_type": "g6e.8xlarge", "max_count": 1100})


def test_without_efa_everybody_speaks_tcp(tmp_path: Path) -> None:
    asked = platform(tmp_path, {"instance_type": "p5.48xlarge", "max_count": 2}, storage={})
    assert transports(asked) == ["TCP"]
    assert efa_interfaces(asked, CATALOGUE) == {}


def test_families_without_efa_clients_have_efa() -> None:
    """Of a family without EFA, nothing would have to be said."""
    families = {name.partition(".")[0] for name in CATALOGUE if CATALOGUE[name].efa_interfaces}
    assert set(service_facts().lustre.not_efa_clients) <= families
    assert any(speaks_efa(name, CATALOGUE) for name in CATALOGUE)
