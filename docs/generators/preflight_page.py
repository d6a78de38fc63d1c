"""`python -m docs.generators.preflight_page` rewrites the lists of docs/preflight.md from the checks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from docs.generators import ROOT
from trainway.doctor.checks import DEPLOYED_CHECKS
from trainway.doctor.tools import TOOLS, tools
from trainway.preflight.checks import CHECKS

PAGE = ROOT / "docs" / "preflight.md"
HEAD = """\
| Check | What must be so | Permissions |
|---|---|---|
"""
TABLES: Mapping[str, Iterable[tuple[str, str, tuple[str, ...]]]] = {
    "preflight": [(each.name, each.summary, each.permissions) for each in CHECKS],
    "doctor": [
        (TOOLS, tools.__doc__ or "", ()),
        *((each.name, each.summary, each.permissions) for each in DEPLOYED_CHECKS),
    ],
}


def page() -> str:
    """Return the page with the lists as the checks have them."""
    text = PAGE.read_text(encoding="utf-8")
    for name, checks in TABLES.items():
        between = re.compile(rf"(?<=<!-- {name} -->\n).*(?=<!-- /{name} -->)", re.DOTALL)
        text = between.sub(_table(checks).replace("\\", r"\\"), text)
    return text


def _table(checks: Iterable[tuple[str, str, tuple[str, ...]]]) -> str:
    return HEAD + "".join(
        f"| `{name}` | {summary} | {', '.join(f'`{each}`' for each in permissions) or 'none'} |\n"
        for name, summary, permissions in sorted(checks)
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
