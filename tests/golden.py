"""`python -m tests.golden` rewrites the golden templates; what changed is then reviewed in the diff."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.synthesis import EXAMPLES, golden_file, golden_text, make_app, templates


def main() -> None:
    """Writes every example's templates beside it, and removes the ones of stacks that are gone."""
    os.environ["CDK_VALIDATION"] = "false"
    for platform_file in EXAMPLES:
        with tempfile.TemporaryDirectory() as out:
            made = templates(make_app(platform_file, Path(out)))
        for role, template in made.items():
            file = golden_file(platform_file, role)
            file.parent.mkdir(exist_ok=True)
            file.write_text(golden_text(template), encoding="utf-8")
        for file in golden_file(platform_file, "any").parent.glob("*.json"):
            if file.stem not in made:
                file.unlink()


if __name__ == "__main__":
    main()
