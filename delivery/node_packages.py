"""Print a part of delivery/node_packages.yaml for the shell: `node_packages.py sources|ubuntu`. Tabs separate fields.

`sources` prints one line per source: the file that it makes, its version, its `nar_sha256` or `-`, and its parts. Each
part is a path in the tree, the address of a Git repository, and a commit, with spaces between them; a part ends with a
semicolon. `ubuntu` prints one line per key: the key and its values, with spaces between them.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

LIST = Path(__file__).with_name("node_packages.yaml")


def sources(document: dict[str, Any]) -> list[str]:
    """Return one line per source."""
    lines = []
    for source in document["sources"]:
        parts = [{"path": ".", **source}, *source.get("submodules", ())]
        origins = "".join(f"{part['path']} {part['git']} {part['commit']};" for part in parts)
        lines.append("\t".join([source["makes"], source["version"], source.get("nar_sha256", "-"), origins]))
    return lines


def ubuntu(document: dict[str, Any]) -> list[str]:
    """Return one line per key."""
    return [
        f"{key}\t{' '.join(values) if isinstance(values, list) else values}"
        for key, values in document["ubuntu"].items()
    ]


if __name__ == "__main__":
    for line in {"sources": sources, "ubuntu": ubuntu}[sys.argv[1]](yaml.safe_load(LIST.read_text())):
        print(line)
