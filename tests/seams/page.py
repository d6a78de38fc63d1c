"""`python -m tests.seams.page` rewrites the table of docs/seams.md from the seams of the tests."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.seams.seam import all_seams
from tests.synthesis import ROOT

PAGE = ROOT / "docs" / "seams.md"
BETWEEN = re.compile(r"(?<=<!-- seams -->\n).*(?=<!-- /seams -->)", re.DOTALL)
HEAD = """\
| Artifact | Rendered by | Read by | Why not the real reader | Planted errors | Test |
|---|---|---|---|---|---|
"""


def table() -> str:
    """Return the table as Markdown: one row per seam, sorted by artifact."""
    return HEAD + "".join(sorted(_rows()))


def _rows() -> Iterator[str]:
    for name, seams in all_seams().items():
        for seam in seams:
            errors = "; ".join(planted.error for planted in seam.planted)
            test = f"[{name}](../tests/seams/{name})"
            why = seam.instead or "It is the real reader."
            yield f"| {seam.artifact} | `{seam.rendered_by}` | {seam.reader} | {why} | {errors} | {test} |\n"


def main() -> None:
    """Replace what stands between the page's markers."""
    PAGE.write_text(BETWEEN.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
