"""An instance type that does not exist, for what must work with any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from trainway.spec import catalogue as module
from trainway.spec.catalogue import Catalogue, load_catalogue

NAME = "p9.96xlarge"
ENTRY: dict[str, Any] = {
    "family": "p5",
    "vcpus": 384,
    "memory_gib": 8192,
    "accelerator": {"model": "b300", "count": 16, "nvlink_domain": 16},
    "instance_store": {"disks": 16, "gb_each": 7600},
    "network_gbps": 12800,
    "network_cards": 64,
    "primary_card_interfaces": 4,
    "ipv4_addresses_per_interface": 50,
}


def shipped() -> dict[str, Any]:
    """The shipped catalogue as plain data."""
    data: dict[str, Any] = yaml.safe_load(Path(module.__file__).with_name("instances.yaml").read_text(encoding="utf-8"))
    return data


def load_data(data: dict[str, Any], directory: Path) -> Catalogue:
    """A catalogue from plain data, by way of a file."""
    directory.mkdir(exist_ok=True)
    file = directory / "instances.yaml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    return load_catalogue(file)


def catalogue_with(directory: Path, **changes: Any) -> Catalogue:
    """The shipped catalogue and this type, some of whose facts are changed."""
    data = shipped()
    data["instances"][NAME] = {**ENTRY, **changes}
    return load_data(data, directory)
