"""What a delivery pipeline is given: the parts of this repository that its stages use, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delivery.content_hash import PARTS, content_hash

REPOSITORY = Path(__file__).resolve().parents[2]
SIDE_PRODUCTS = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache")
# What every pipeline's stages begin with.
STAGES = "delivery"
SCRIPTS = "lifecycle_scripts"


@dataclass(frozen=True)
class Bundle:
    """A directory for one pipeline's source, and the hash of all of it."""

    directory: Path
    content: str

    def content_of(self, parts: Sequence[str]) -> str:
        """The hash of some of its parts."""
        return content_hash(self.directory, parts)


@dataclass(frozen=True)
class Bundles:
    """One bundle a pipeline, so that a change of a file runs only the stages that it concerns."""

    mirror: Bundle
    image: Bundle
    cluster: Bundle

    @property
    def image_content(self) -> str:
        """The hash of what the training image is made of."""
        return self.image.content_of(PARTS["image"])

    @property
    def base_image_content(self) -> str:
        """The hash of what the part of the training image is made of that needs the internet."""
        return self.image.content_of(PARTS["base_image"])

    @property
    def scripts_content(self) -> str:
        """The hash of the lifecycle scripts."""
        return self.cluster.content_of([SCRIPTS])


def make_bundles(directory: Path, manifests: Mapping[str, Mapping[str, Any]]) -> Bundles:
    """Makes the bundles below a directory that it empties first; the cluster's has `manifests/NAME.json`."""
    shutil.rmtree(directory, ignore_errors=True)
    return Bundles(
        mirror=_bundle(directory / "mirror", [STAGES]),
        image=_bundle(directory / "image", [STAGES, *PARTS["image"]]),
        cluster=_bundle(directory / "cluster", [STAGES, SCRIPTS], manifests),
    )


def _bundle(directory: Path, parts: list[str], manifests: Mapping[str, Mapping[str, Any]] | None = None) -> Bundle:
    directory.mkdir(parents=True)
    for part in parts:
        if (REPOSITORY / part).is_dir():
            shutil.copytree(REPOSITORY / part, directory / part, ignore=SIDE_PRODUCTS)
        else:
            shutil.copyfile(REPOSITORY / part, directory / part)
    for name, manifest in (manifests or {}).items():
        file = directory / "manifests" / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return Bundle(directory, content_hash(directory, [*parts, *(["manifests"] if manifests else [])]))
