"""`trainway manifests` writes into a directory of its own, and loses nothing of anybody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.synthesis import ROOT
from trainway.manifests.export import export_manifests
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform

PLATFORM = load_platform(ROOT / "platform.yaml")


def test_what_an_earlier_export_wrote_is_replaced(tmp_path: Path) -> None:
    written, _ = export_manifests(PLATFORM, load_catalogue(), tmp_path, None)
    stale = written[0].with_name("stale.yaml")
    stale.write_text(written[0].read_text())
    again, _ = export_manifests(PLATFORM, load_catalogue(), tmp_path, None)
    assert sorted(again) == sorted(file for file in tmp_path.rglob("*") if file.is_file())
    assert not stale.exists()


def test_a_file_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.yaml"
    theirs.write_text("kind: Namespace\n")
    with pytest.raises(UsageError, match=r"theirs\.yaml, which was not written by this command"):
        export_manifests(PLATFORM, load_catalogue(), tmp_path, None)
    assert theirs.read_text() == "kind: Namespace\n" and list(tmp_path.iterdir()) == [theirs]


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text("name: first\n")
    with pytest.raises(UsageError, match="it is a file"):
        export_manifests(PLATFORM, load_catalogue(), file, None)
    assert file.read_text() == "name: first\n"
