"""`python -m tests.golden` rewrites the golden templates, and the schema by which nodes read their parameters.

What changed is then reviewed in the diff. One example of each orchestrator has golden templates. The others have the
checksums of theirs in tests/stacks/digests.yaml: `python -m tests.template_diff EXAMPLE` shows what changed.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from tests.representatives import PLATFORMS
from tests.synthesis import EXAMPLES, ROOT, Template, digest, golden_file, golden_text, make_app, templates
from trainway.spec.slurm.node_parameters import node_parameters_schema

NODE_SCHEMA = ROOT / "lifecycle_scripts" / "parameters.schema.json"
DIGESTS: Final = ROOT / "tests" / "stacks" / "digests.yaml"
HEADER: Final = """\
# Checksums of the templates of the examples without golden templates, by example and stack. `make golden` writes them.
# `python -m tests.template_diff EXAMPLE` shows what changed.
"""
# By example and stack, the checksum of the template.
Digests = dict[str, dict[str, str]]


def node_schema_text() -> str:
    """Return the schema of the model NodeParameters as the file has it."""
    return json.dumps(node_parameters_schema(), indent=2) + "\n"


def digests_of(stacks: Mapping[str, Template]) -> dict[str, str]:
    """Return the checksums of an example's templates by the stack's role."""
    return {role: digest(template) for role, template in stacks.items()}


def read_digests() -> Digests:
    """Return the checksums that are kept."""
    loaded: Digests = yaml.safe_load(DIGESTS.read_text(encoding="utf-8"))
    return loaded


def main() -> None:
    """Write the templates or checksums of every example, and remove those of stacks and examples that are gone."""
    NODE_SCHEMA.write_text(node_schema_text(), encoding="utf-8")
    os.environ["CDK_VALIDATION"] = "false"
    digests: Digests = {}
    texts: dict[Path, str] = {}
    for platform_file in EXAMPLES:
        with tempfile.TemporaryDirectory() as out:
            made = templates(make_app(platform_file, Path(out)))
        if platform_file.stem in PLATFORMS:
            texts |= {golden_file(platform_file, role): golden_text(template) for role, template in made.items()}
        else:
            digests[platform_file.stem] = digests_of(made)
    for folder in (ROOT / "examples").glob("*.golden"):
        shutil.rmtree(folder)
    for file, text in texts.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    DIGESTS.write_text(HEADER + yaml.safe_dump(digests, width=1000), encoding="utf-8")


if __name__ == "__main__":
    main()
