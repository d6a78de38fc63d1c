"""The platforms whose artifacts the seams' readers read: every example, and a matrix of other shapes."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.people import with_people
from tests.synthesis import EXAMPLES
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

SHAPES_FILE = Path(__file__).with_name("shapes.yaml")
IN_ONE_REGION = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"]}


@cache
def platforms() -> dict[str, Platform]:
    """Return every example and every shape by name, each loaded and checked as `trainway check` does."""
    with tempfile.TemporaryDirectory() as directory:
        files = [*EXAMPLES, *write_shapes(Path(directory))]
        return {file.stem: load_platform(file) for file in files}


@cache
def kubernetes_platforms() -> dict[str, Platform]:
    """Return those of the platforms that have Kubernetes, by name."""
    return {name: each for name, each in platforms().items() if each.orchestrator.is_kubernetes}


def write_shapes(directory: Path) -> list[Path]:
    """Write the shapes as platform files into the directory and return the files."""
    shapes: dict[str, dict[str, Any]] = yaml.safe_load(SHAPES_FILE.read_text(encoding="utf-8"))
    files = []
    for name, shape in shapes.items():
        file = directory / f"{name}.yaml"
        file.write_text(yaml.safe_dump(with_people({"name": name, **IN_ONE_REGION, **shape})), encoding="utf-8")
        files.append(file)
    return files
