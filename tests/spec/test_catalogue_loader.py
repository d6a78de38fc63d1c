"""The loader takes a new type as one entry, and refuses facts without a source and facts that cannot be."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fictitious import ENTRY, NAME, catalogue_with, load_data, shipped
from trainway.spec.facts.catalogue import Catalogue, CatalogueError, load_catalogue

Data = dict[str, Any]
Load = Callable[[Data], Catalogue]


def test_every_source_is_used() -> None:
    used = [source for instance in load_catalogue().values() for group in instance.sources.values() for source in group]
    assert {source["url"] for source in shipped()["sources"].values()} == {source.url for source in used}


@pytest.fixture
def load(tmp_path: Path) -> Load:
    return lambda data: load_data(data, tmp_path)


def test_a_new_type_is_one_entry(tmp_path: Path) -> None:
    instance = catalogue_with(tmp_path)[NAME]
    assert instance.efa_interfaces == 64
    assert instance.accelerator is not None
    assert instance.accelerator.bf16_tflops == 2250
    assert instance.hyperpod_name == f"ml.{NAME}"


@pytest.mark.parametrize("group", ["compute", "accelerator", "storage", "network", "capacity", "quota", "hyperpod"])
def test_an_entry_without_a_source_is_refused(load: Load, group: str) -> None:
    data = shipped()
    data["instances"] = {"g7.2xlarge": {**data["instances"]["g7.2xlarge"], "sources": {group: []}}}
    with pytest.raises(CatalogueError, match=rf"g7\.2xlarge: no source is named for .*name it as `{group}`"):
        load(data)


@pytest.mark.parametrize(("section", "name", "group"), [("layouts", "ena", "layout"), (None, "pod_limits", "pods")])
def test_what_types_share_is_refused_without_a_source(load: Load, section: str | None, name: str, group: str) -> None:
    data = shipped()
    del (data[section] if section else data)[name]["sources"]
    with pytest.raises(CatalogueError, match=f"name it as `{group}`"):
        load(data)


def test_an_unknown_source_is_refused(load: Load) -> None:
    data = shipped()
    data["instances"]["p5.48xlarge"]["sources"] = {"compute": ["hearsay"]}
    with pytest.raises(CatalogueError, match=r"p5\.48xlarge: `compute` names hearsay, which is not under `sources`"):
        load(data)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"network_cards": None}, "network_cards"),
        ({"vcpus": 0}, "vcpus"),
        ({"memory": 16}, "memory"),
        ({"family": "p7"}, "`families` has no p7"),
        ({"layout": "spiral"}, "`layouts` has no spiral"),
        ({"accelerator": {"model": "z80", "count": 1}}, "`accelerators` has no z80"),
        ({"capacity_kinds": ["barter"]}, "capacity_kinds"),
        ({"layout": "efa-on-one-card-per-gpu", "network_cards": 4}, "does not have"),
        ({"primary_card_interfaces": 1}, "card 0 holds 1"),
    ],
)
def test_an_entry_that_is_wrong_is_refused_by_name(load: Load, change: Data, complaint: str) -> None:
    data = shipped()
    entry = {key: value for key, value in {**ENTRY, **change}.items() if value is not None}
    data["instances"]["p9.96xlarge"] = entry
    with pytest.raises(CatalogueError, match=rf"p9\.96xlarge: .*{re.escape(complaint)}"):
        load(data)


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ([{"cards": 0, "device": 0, "kind": "efa-only"}], "have an address"),
        ([{"cards": 1, "device": 0, "kind": "interface"}], "card 0, device 0"),
        ([{"cards": 0, "device": device, "kind": "efa"} for device in (0, 1)], "one EFA interface"),
        ([{"cards": [0, 0], "device": 0, "kind": "interface"}], "holds one interface"),
        ([{"cards": 0, "kind": "interface"}], "'device' is missing"),
    ],
)
def test_a_layout_that_ec2_would_refuse_is_refused(load: Load, rules: list[Data], complaint: str) -> None:
    data = shipped()
    data["layouts"]["ena"]["interfaces"] = rules
    with pytest.raises(CatalogueError, match=complaint):
        load(data)
