"""The pictures of the README show what the commands print today."""

from __future__ import annotations

import pytest

from docs.generators import screens


@pytest.mark.parametrize(("name", "screen"), [("check", screens.screen_of_check), ("plan", screens.screen_of_plan)])
def test_a_picture_shows_the_screen_of_the_command(name: str, screen: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(screens.COLUMNS))
    assert callable(screen)
    remedy = "`python -m docs.generators.screens` draws it again"
    assert (screens.PICTURES / f"{name}.svg").read_text(encoding="utf-8") == screen(), remedy
