"""The pictures of the README show what the commands print today."""

from __future__ import annotations

import pytest

from docs.generators import screens
from tests.monitoring import pictures


@pytest.mark.parametrize(("name", "screen"), [("check", screens.screen_of_check), ("plan", screens.screen_of_plan)])
def test_a_picture_shows_the_screen_of_the_command(name: str, screen: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(screens.COLUMNS))
    assert callable(screen)
    remedy = "`python -m docs.generators.screens` draws it again"
    assert (screens.PICTURES / f"{name}.svg").read_text(encoding="utf-8") == screen(), remedy


def test_the_picture_of_the_dashboard_shows_what_prometheus_answers_to_its_queries() -> None:
    remedy = "`python -m tests.monitoring.pictures` draws it again"
    assert (screens.PICTURES / "dashboard.svg").read_text(encoding="utf-8") == pictures.picture(), remedy
