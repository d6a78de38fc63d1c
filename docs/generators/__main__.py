"""Write all generated files of the repository, or some of them.

    make generated
    python -m docs.generators reference line-scores

Files that need the internet are not among them: `python -m delivery.refresh_lock`, `python -m tests.seams.charts`, and
`make lock` write those.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

# What each module writes is in the table of CONTRIBUTING.md. The weights of lines come before the pages that name them.
WRITERS = {
    "line-scores": "tests.explain.fit_line_scores",
    "reference": "docs.generators.reference.pages",
    "rules": "docs.generators.rules_page",
    "preflight": "docs.generators.preflight_page",
    "seams": "tests.seams.page",
    "folders": "docs.generators.rooms",
    "notices": "docs.generators.notices",
    "versions": "docs.generators.versions_page",
    "templates": "tests.golden",
    "picture": "tests.picture",
}


def main() -> None:
    """Run the writers whose names are arguments, or all of them, one after the other. Stop at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*WRITERS, []], metavar="NAME", help=", ".join(WRITERS))
    for name in parser.parse_args().names or WRITERS:
        subprocess.run([sys.executable, "-m", WRITERS[name]], check=True)


if __name__ == "__main__":
    main()
