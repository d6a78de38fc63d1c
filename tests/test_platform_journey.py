"""Follow docs/platform-journey.md block by block in a copy of the checkout, with an empty home directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fresh_checkout import fresh_checkout
from tests.recipes.page import environment_of_reader, follow, session
from tests.synthesis import ROOT

PAGE = (ROOT / "docs" / "platform-journey.md").read_text(encoding="utf-8")


@pytest.mark.exhaustive
def test_following_the_page_gives_what_it_promises(tmp_path: Path) -> None:
    checkout = fresh_checkout(tmp_path / "trainway")
    environment = environment_of_reader(tmp_path / "home", "/usr/local/bin:/usr/bin:/bin")
    environment["PYTHONPATH"] = str(checkout)
    try:
        commands = follow(PAGE, checkout, session(checkout, environment, tmp_path / "state"))
    finally:
        end = [sys.executable, "-m", "trainway.cli", "emulator", "stop"]
        subprocess.run(end, cwd=checkout, env=environment, check=False, capture_output=True)
    for word in ("init", "check", "plan", "preflight", "launch", "verify", "diff"):
        assert any(f"trainway {word} " in each for each in commands), word
