"""`python -m tests.preflight_page` rewrites the lists of docs/preflight.md from the checks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tests.synthesis import ROOT
from trainway.preflight.check import AccountCheck
from trainway.preflight.checks import CHECKS

PAGE = ROOT / "docs" / "preflight.md"
HEAD = """\
| Check | What must be so | Permissions |
|---|---|---|
"""
TABLES: Mapping[str, Iterable[AccountCheck]] = {"preflight": CHECKS}


def page() -> str:
    """Return the page with the lists as the checks have them."""
    text = PAGE.read_text(encoding="utf-8")
    for name, checks in TABLES.items():
        between = re.compile(rf"(?<=<!-- {name} -->\n).*(?=<!-- /{name} -->)", re.DOTALL)
        text = between.sub(_table(checks).replace("\\", r"\\"), text)
    return text


def _table(checks: Iterable[AccountCheck]) -> str:
    rows = sorted(checks, key=lambda each: each.name)
    return HEAD + "".join(
        f"| `{each.name}` | {each.summary} | {', '.join(f'`{name}`' for name in each.permissions) or 'none'} |\n"
        for each in rows
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
