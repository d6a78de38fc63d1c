"""Write the table of the channels into docs/image.md: `python -m docs.generators.versions_page`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docs.generators import ROOT
from trainway.spec.facts.versions import combination_named
from trainway.spec.image.compatibility import fabric_of
from trainway.spec.loader import load_versions

PAGE = ROOT / "docs/image.md"
BEGIN, END = "<!-- channels -->\n", "<!-- /channels -->\n"
PURPOSES = {
    "stable": "the default: publishers tested every pair",
    "current": "the newest PyTorch",
    "edge": "[GIN and DeepEP](#gin-and-deepep)",
}


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| `image.versions` | Combination | Made | PyTorch | NCCL | EFA installer | For |"
    yield "|---|---|---|---|---|---|---|"
    versions = load_versions()
    for channel, name in versions.channels.items():
        chosen = combination_named(versions, name)
        fabric = chosen and fabric_of(versions, chosen)
        assert chosen and fabric, "VERSION_RULES let nothing else pass"
        cells = (chosen.made, chosen.pytorch, fabric.nccl, chosen.efa_installer, PURPOSES[channel])
        yield f"| `{channel}` | `{name}` | {' | '.join(map(str, cells))} |"


def written(page: str) -> str:
    """Return the page with the table."""
    lines = "".join(f"{line}\n" for line in table())
    return re.sub(f"{BEGIN}.*{END}", f"{BEGIN}{lines}{END}", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
