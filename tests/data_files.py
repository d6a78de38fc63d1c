"""Reads data that tests are generated from, quickly enough for the collection of the tests."""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml


def read_yaml(file: Path) -> Any:
    """Return the content of a YAML file."""
    return parse_yaml(file.read_text(encoding="utf-8"))


def parse_yaml(text: str) -> Any:
    """Return the content of a YAML text. libyaml parses it ten times as fast as the parser in Python."""
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def installed_file(package: str, path: str) -> Path:
    """Return a file of an installed package, without an import of the package."""
    found = find_spec(package)
    assert found, f"{package} is not installed"
    assert found.submodule_search_locations, f"{package} is a module without a folder"
    return Path(found.submodule_search_locations[0]) / path


@cache
def recorded_instance_types() -> dict[str, Any]:
    """Return EC2's DescribeInstanceTypes by instance type, as moto recorded it. Nobody may change the answers."""
    packed = installed_file("moto", "ec2/resources/instance_types.json.gz").read_bytes()
    answers: dict[str, Any] = json.loads(gzip.decompress(packed))
    return answers
