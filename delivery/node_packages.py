"""Print a part of delivery/node_packages.yaml for the shell: `node_packages.py KIND`. Tabs separate fields.

KIND is `sources`, `programs`, or `ubuntu`. `sources` prints one line per source: the file that it makes, its version,
its `nar_sha256` or `-`, and its parts. Each part is a path in the tree, the address of a Git repository, and a commit,
with spaces between them; a part ends with a semicolon. `programs` prints one line per program: the file that it makes,
the address of its archive, the archive's SHA-256, and the member of the archive. `ubuntu` prints one line per key: the
key and its values, with spaces between them.
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


def programs(document: dict[str, Any]) -> list[str]:
    """Return one line per program."""
    keys = ("makes", "url", "sha256", "program")
    return ["\t".join(each[key] for key in keys) for each in document["programs"]]


def ubuntu(document: dict[str, Any]) -> list[str]:
    """Return one line per key."""
    return [
        f"{key}\t{' '.join(values) if isinstance(values, list) else values}"
        for key, values in document["ubuntu"].items()
    ]


if __name__ == "__main__":
    kinds = {"sources": sources, "programs": programs, "ubuntu": ubuntu}
    for line in kinds[sys.argv[1]](yaml.safe_load(LIST.read_text())):
        print(line)
