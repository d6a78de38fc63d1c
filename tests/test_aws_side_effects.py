"""Each fact about what AWS does by itself is shown by a test, or is a row of what is not proved."""

from __future__ import annotations

import re

from tests.synthesis import ROOT

PAGE = ROOT / "docs/aws-side-effects.md"
KINDS = {"Creates", "Counts", "Locks", "Keeps"}


def test_each_fact_is_shown_by_a_test_or_is_not_proved() -> None:
    unproven = (ROOT / "docs/unproven.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(sections) == 5
    for section in sections:
        rows = [line.strip("| ").split(" | ") for line in section.splitlines() if re.match(r"\| [A-Z]\w+ \|", line)]
        name = section.partition("\n")[0]
        assert {row[0] for row in rows} == KINDS, name
        for row in rows:
            shown = re.findall(r"\]\(([^)]+)\)", row[-1])
            assert len(shown) == 1, row
            if shown == ["unproven.md"]:
                assert f"The rows of {name} in" in unproven, row
            else:
                assert (PAGE.parent / shown[0]).resolve().is_file(), row
