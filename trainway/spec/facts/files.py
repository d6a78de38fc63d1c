"""Read the YAML files of published facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

# The folder of the files.
FACTS: Final = Path(__file__).parent


def read_facts(file: Path) -> Any:
    """Return the document in a YAML file, by a loader for plain values, in C if libyaml is installed."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(file.read_text(encoding="utf-8"), Loader=loader)
