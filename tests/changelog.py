"""CHANGELOG.md as data: its versions, and what each says that a deploy removes or replaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tests.synthesis import ROOT

CHANGELOG: Final = ROOT / "CHANGELOG.md"
UNRELEASED: Final = "Unreleased"
# The section of a version that says what a deploy changes.
DEPLOY: Final = "### What a deploy changes"
# - Removes `cluster/TrainNodes`: the reason.
_LOSS = re.compile(r"^- (Removes|Replaces) `([^`]+)`: \S", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """A version of the changelog: its date, or `Unreleased`, and its text."""

    version: str
    date: str
    text: str

    @property
    def deploy(self) -> str:
        """What the version says that a deploy changes."""
        return self.text.partition(DEPLOY)[2].partition("\n### ")[0].strip()

    def allows(self, loss: str) -> bool:
        """Whether the version says that a deploy removes or replaces a resource: `Removes cluster/TrainNodes`."""
        return any(fnmatchcase(loss, f"{verb} {pattern}") for verb, pattern in _LOSS.findall(self.deploy))


def entries(text: str) -> list[Entry]:
    """Return the versions of a changelog in the order of the file, the newest first."""
    parts = re.split(r"^## \[(\S+)\] - (\S+)$", text, flags=re.MULTILINE)
    return [Entry(*parts[start : start + 3]) for start in range(1, len(parts), 3)]


def problems(text: str, version: str, listed: list[str], baseline: str, *, differs: bool) -> Iterator[str]:
    """Yield what is wrong with a changelog.

    `listed` are the versions of releases.yaml. `differs` says whether the templates are others than `baseline`'s.
    """
    found = entries(text)
    if not found or found[0].version != version:
        yield f"its first version is not {version}, which is the one of trainway/__init__.py"
        return
    if [each.version for each in reversed(found)] != listed:
        yield "its versions are not those of trainway/spec/facts/releases.yaml"
    if any(each.date == UNRELEASED for each in found[1:]):
        yield "a version below the first has no date"
    if any(not each.deploy for each in found):
        yield f"a version has no section `{DEPLOY[4:]}`; without a change, it says so"
    dates = {each.version: each.date for each in found}
    if differs and dates.get(baseline) != UNRELEASED:
        if baseline == version:
            yield f"templates are others than those of {version}, which is released: begin the next version"
        elif re.fullmatch(r"Nothing\.?", found[0].deploy):
            yield f"templates are others than those of {baseline}, and {version} says that a deploy changes nothing"
