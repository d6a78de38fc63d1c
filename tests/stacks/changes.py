"""An example with some of its values changed, or from a copy of this repository with another line in one file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from stacks.constructs.delivery import bundle
from tests.synthesis import ROOT, Template, make_app, templates, templates_of

EKS = ROOT / "examples/eks-p5.yaml"
SOURCES = ("delivery", "container", "training", "lifecycle_scripts", "pyproject.toml")


def synthesized(out: Path, example: Path = EKS, change: dict[str, Any] | None = None) -> dict[str, Template]:
    """The templates of an example with some of its values changed."""
    file = out / "platform.yaml"
    file.write_text(yaml.safe_dump(merged(yaml.safe_load(example.read_text(encoding="utf-8")), change or {})))
    # The cache knows the files of this repository, and nothing of a copy.
    is_copy = vars(bundle)["CHECKOUT"] != ROOT
    return templates(make_app(file, out / "cdk.out")) if is_copy else templates_of(file)


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """The values of one document over those of another."""
    return {
        **below,
        **{key: merged(below.get(key) or {}, new) if isinstance(new, dict) else new for key, new in above.items()},
    }


def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """Make the bundles from a copy of this repository in which one file has another line."""
    copy = tmp_path / "repository"
    for part in SOURCES:
        place = ROOT / part
        if place.is_dir():
            shutil.copytree(place, copy / part, ignore=bundle.SIDE_PRODUCTS)
        else:
            shutil.copy(place, copy / part)
    with (copy / file).open("a", encoding="utf-8") as text:
        text.write("\n# another line\n")
    monkeypatch.setattr(bundle, "CHECKOUT", copy)
