"""A release that changes nothing but its number changes nothing of a deployed platform but its hand-off."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.synthesis import ROOT, make_app, templates, templates_of


def test_a_new_version_changes_the_parameter_of_the_hand_off_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stacks.clusters import hand_off

    before = templates_of(ROOT / "platform.yaml")
    monkeypatch.setattr(hand_off, "__version__", "99.0.0")
    after = templates(make_app(ROOT / "platform.yaml", tmp_path))
    changed = {
        (role, name)
        for role, template in after.items()
        for name, resource in template["Resources"].items()
        if resource != before[role]["Resources"].get(name)
    }
    assert changed == {("cluster", "HandOff")}


def test_no_file_of_the_training_image_names_the_version() -> None:
    """The image, whose content pyproject.toml is a part of, would be built anew at each release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" not in project and project["dynamic"] == ["version"]
