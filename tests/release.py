"""`python -m tests.release` keeps the examples as this version deploys them, for the tests of the versions after it.

It refuses to do so for a version that CHANGELOG.md dates, because somebody may have deployed it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.changelog import CHANGELOG, UNRELEASED, entries
from tests.releases import as_of_today, write_release
from tests.synthesis import EXAMPLES
from trainway import __version__


def main() -> None:
    """Write releases/VERSION for the version of trainway/__init__.py."""
    dates = {each.version: each.date for each in entries(CHANGELOG.read_text(encoding="utf-8"))}
    if dates.get(__version__) != UNRELEASED:
        sys.exit(f"{__version__} is released, or not in CHANGELOG.md: begin the next version there")
    with tempfile.TemporaryDirectory() as directory:
        examples = {file.stem: as_of_today(file, Path(directory)) for file in EXAMPLES}
    print(write_release(__version__, examples))


if __name__ == "__main__":
    main()
