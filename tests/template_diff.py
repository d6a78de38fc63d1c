"""`python -m tests.template_diff EXAMPLE [COMMIT]` shows how an example's templates differ from those of a commit.

EXAMPLE is a name, for example `eks-p5`. Without COMMIT, the command compares with HEAD. Hashes of content are masked as
in golden templates.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.synthesis import EXAMPLES, ROOT, golden_text, templates_in


def check_out(commit: str, directory: Path) -> Path:
    """Write the files of a commit into a new directory, and return the directory."""
    directory.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archive.stdout, check=True)
    return directory


def write_templates(checkout: Path, file: Path, directory: Path) -> None:
    """Write what a checkout makes of a platform file into a new directory, a file for each stack."""
    with tempfile.TemporaryDirectory() as out:
        environment = {
            **os.environ,
            "PYTHONPATH": str(checkout),
            "CDK_OUTDIR": out,
            "CDK_CONTEXT_JSON": json.dumps({"platform": str(file)}),
            "CDK_VALIDATION": "false",
        }
        subprocess.run([sys.executable, str(checkout / "app.py")], cwd=checkout, env=environment, check=True)
        made = templates_in(Path(out))
    directory.mkdir()
    for role, template in made.items():
        (directory / f"{role}.json").write_text(golden_text(template), encoding="utf-8")


def main() -> None:
    """Print the difference as `git diff` does."""
    files = {file.stem: file.relative_to(ROOT) for file in EXAMPLES}
    parser = argparse.ArgumentParser(prog="python -m tests.template_diff", description=__doc__)
    parser.add_argument("example", choices=files, help="Name of the example, for example `eks-p5`.")
    parser.add_argument("commit", nargs="?", default="HEAD", help="Commit to compare with. Default: HEAD.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        earlier = check_out(asked.commit, Path(directory) / "checkout")
        if (earlier / files[asked.example]).exists():
            write_templates(earlier, files[asked.example], Path(directory) / "before")
        else:
            (Path(directory) / "before").mkdir()
        write_templates(ROOT, files[asked.example], Path(directory) / "after")
        subprocess.run(["git", "diff", "--no-index", "before", "after"], cwd=directory, check=False)


if __name__ == "__main__":
    main()
