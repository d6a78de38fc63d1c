"""Prints delivery/node_packages.yaml for the shell: one file a line, fields separated by tabs.

The name of the file, its kind (file | git), from where it comes, and its pin: the checksum, `-` where none is known, or
the commit.
"""

from pathlib import Path
from typing import Any

import yaml

LIST = Path(__file__).with_name("node_packages.yaml")


def lines(document: dict[str, Any]) -> list[str]:
    """Returns the lines, packages first."""
    files = [file for package in document["packages"] for file in package["files"]]
    packages = [[file["url"].rpartition("/")[2], "file", file["url"], file["sha256"] or "-"] for file in files]
    sources = [
        [f"{source['name']}-{source['version']}.tar", "git", source["git"], source["commit"]]
        for source in document["sources"]
    ]
    return ["\t".join(fields) for fields in (*packages, *sources)]


if __name__ == "__main__":
    for line in lines(yaml.safe_load(LIST.read_text())):
        print(line)
