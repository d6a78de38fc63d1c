"""What the delivery pipeline is given: the parts of this repository that its stages use, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delivery.content_hash import PARTS as IMAGE_PARTS
from delivery.content_hash import content_hash

REPOSITORY = Path(__file__).resolve().parents[2]
PARTS = (*IMAGE_PARTS["image"], "delivery", "lifecycle_scripts")
SIDE_PRODUCTS = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache")


@dataclass(frozen=True)
class Bundle:
    """A directory for the pipeline's source, with the hash of all of it, and those of three parts of it."""

    directory: Path
    content: str
    image_content: str
    base_image_content: str
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
        content=content_hash(directory, (*PARTS, "manifests")),
        image_content=content_hash(directory, IMAGE_PARTS["image"]),
        base_image_content=content_hash(directory, IMAGE_PARTS["base_image"]),
        scripts_content=content_hash(directory, ("lifecycle_scripts",)),
    )
