"""`python -m tests.golden` rewrites the golden templates, and the schema by which nodes read their parameters.

What changed is then reviewed in the diff.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from tests.synthesis import EXAMPLES, ROOT, golden_file, golden_text, make_app, templates
from trainway.spec.derived.node_parameters import node_parameters_schema

NODE_SCHEMA = ROOT / "lifecycle_scripts" / "parameters.schema.json"


def node_schema_text() -> str:
    """Return the schema of the model NodeParameters as the file has it."""
    return json.dumps(node_parameters_schema(), indent=2) + "\n"


def main() -> None:
    """Write every example's templates below `examples`, and remove those of stacks that are gone."""
    NODE_SCHEMA.write_text(node_schema_text(), encoding="utf-8")
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
