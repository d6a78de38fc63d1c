"""`python -m docs.generators.rules_page` rewrites the lists of docs/rules.md from the rules of a platform file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from docs.generators import ROOT
from trainway.spec.rule import PUBLISHED_RULES, Rule, name_of, summary_of
from trainway.spec.rules import RULES

PAGE = ROOT / "docs" / "rules.md"
HEAD = """\
| Rule | What it checks |
|---|---|
"""


def page() -> str:
    """Return the page with the lists as the rules have them."""
    text = PAGE.read_text(encoding="utf-8")
    published = [each for each in RULES if name_of(each) in PUBLISHED_RULES]
    for name, rules in (("published", published), ("others", set(RULES) - set(published))):
        between = re.compile(rf"(?<=<!-- {name} -->\n).*(?=<!-- /{name} -->)", re.DOTALL)
        text = between.sub(_table(rules).replace("\\", r"\\"), text)
    return text


def _table(rules: Iterable[Rule]) -> str:
    return HEAD + "".join(f"| `{name_of(each)}` | {summary_of(each)} |\n" for each in sorted(rules, key=name_of))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
