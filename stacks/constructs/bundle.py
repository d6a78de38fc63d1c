"""What the delivery pipeline is given: the parts of this repository that its stages use, and nothing else."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
# What the image is made of: a change elsewhere must not rebuild it.
IMAGE_PARTS = ("container", "training", "constraints.txt", "pyproject.toml")
PARTS = (*IMAGE_PARTS, "delivery", "lifecycle_scripts")
SIDE_PRODUCTS = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache")


@dataclass(frozen=True)
class Bundle:
    """A directory for the pipeline's source, with the hash of all of it, and those of two parts of it."""

    directory: Path
    content: str
    image_content: str
    scripts_content: str


def make_bundle(directory: Path, manifests: Mapping[str, Mapping[str, Any]]) -> Bundle:
    """Copies the parts, and writes the manifests as `manifests/NAME.json`, into a directory that it makes anew."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for part in PARTS:
        if (REPOSITORY / part).is_dir():
            shutil.copytree(REPOSITORY / part, directory / part, ignore=SIDE_PRODUCTS)
        else:
            shutil.copyfile(REPOSITORY / part, directory / part)
    for name, manifest in manifests.items():
        file = directory / "manifests" / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return Bundle(
        directory,
        content=_hash(directory, (*PARTS, "manifests")),
        image_content=_hash(directory, IMAGE_PARTS),
        scripts_content=_hash(directory, ("lifecycle_scripts",)),
    )


def _hash(root: Path, parts: Iterable[str]) -> str:
    """A hash of names and contents; times and permissions of a checkout differ between machines and do not count."""
    total = hashlib.sha256()
    files = (file for part in parts for file in ((root / part).rglob("*") if (root / part).is_dir() else [root / part]))
    for file in sorted(file for file in files if file.is_file()):
        total.update(f"{file.relative_to(root).as_posix()}\0".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]
