"""The instance type of the recipe docs/recipes/instance-type.md, which does not exist, for what must work with any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.data_files import parse_yaml, read_yaml
from tests.recipes.page import added, apply_diff, blocks, page
from trainway.spec.facts.catalogue import Catalogue, load_catalogue
from trainway.spec.facts.files import FACTS

CATALOGUE = FACTS / "instances.yaml"
((_, DIFF),) = blocks(page("instance-type"), "Change").items()
NAME = added(DIFF).partition(":")[0].strip()


def shipped() -> dict[str, Any]:
    """Return the shipped catalogue as plain data."""
    data: dict[str, Any] = read_yaml(CATALOGUE)
    return data


def _entry() -> dict[str, Any]:
    """Return the entry of the recipe as plain data, read together with the anchors of the shipped catalogue."""
    text = apply_diff(DIFF, CATALOGUE.read_text(encoding="utf-8"), CATALOGUE.name)
    entry: dict[str, Any] = parse_yaml(text)["instances"][NAME]
    return entry


ENTRY = _entry()


def load_data(data: dict[str, Any], directory: Path) -> Catalogue:
    """Return a catalogue from plain data, by way of a file in a directory."""
    directory.mkdir(exist_ok=True)
    file = directory / "instances.yaml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    return load_catalogue(file)


def catalogue_with(directory: Path, **changes: Any) -> Catalogue:
    """Return the shipped catalogue with this type, some of whose facts are changed."""
    data = shipped()
    data["instances"][NAME] = {**ENTRY, **changes}
    return load_data(data, directory)
