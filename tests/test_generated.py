"""One command writes all generated files, and they are what it writes."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generators.__main__ import WRITERS
from tests.fresh_checkout import fresh_checkout
from tests.synthesis import ROOT

# These need the internet, or keep a released version.
ELSEWHERE = {
    "delivery.refresh_lock",
    "tests.release",
    "tests.seams.charts",
    "tests.seams.kubernetes.refresh_definitions",
    "trainway.spec.refresh_versions",
}


def test_contributing_names_every_writer() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Generated files")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\|[^|]*\| `python -m ([\w.]+)", table, re.MULTILINE))
    assert named == {*WRITERS.values(), *ELSEWHERE}


def contents(checkout: Path) -> dict[str, str]:
    """Return the checksum of each file of a checkout that a writer could change."""
    kinds = (".md", ".yaml", ".json", ".svg")
    files = [file for file in checkout.rglob("*") if file.suffix in kinds and file.is_file()]
    made = (".venv", "node_modules", "build", ".grimp_cache")
    kept = [file for file in files if not set(made) & set(file.relative_to(checkout).parts)]
    return {str(file.relative_to(checkout)): hashlib.sha256(file.read_bytes()).hexdigest() for file in kept}


@pytest.mark.exhaustive
def test_writing_all_generated_files_changes_none(tmp_path: Path) -> None:
    checkout = fresh_checkout(tmp_path / "checkout")
    before = contents(checkout)
    subprocess.run(
        [sys.executable, "-m", "docs.generators"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        check=True,
    )
    assert contents(checkout) == before
