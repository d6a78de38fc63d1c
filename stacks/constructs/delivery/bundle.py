"""What a delivery pipeline is given: the parts of this repository that its stages use, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delivery.content_hash import ARGUMENTS, SOURCES, content_hash, image_hash
from trainway.manifests import cluster_manifests
from trainway.parts.checkout import CHECKOUT
from trainway.spec.derived.image_build import build_arguments
from trainway.spec.derived.node_parameters import NodeParameters, node_parameters
from trainway.spec.derived.slurm_accounts import ACCOUNTS_DOCUMENT, slurm_accounts
from trainway.spec.derived.slurm_users import USERS_DOCUMENT, slurm_users
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.loader import load_versions
from trainway.spec.platform import Platform

SIDE_PRODUCTS = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache")
# What every pipeline's stages begin with.
STAGES = "delivery"
SCRIPTS = "lifecycle_scripts"
# What PyTorch and add-ons require, in one file per release.
REQUIREMENTS = "container/requirements"


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
        return self._image_hash("image")

    @property
    def base_image_content(self) -> str:
        """The hash of what the base of the training image is made of."""
        return self._image_hash("base")

    @property
    def image_arguments(self) -> str:
        """The file of the arguments that the training image is built with."""
        return (self.image.directory / ARGUMENTS).read_text(encoding="utf-8")

    def _image_hash(self, what: str) -> str:
        return image_hash(self.image.directory, what, json.loads(self.image_arguments))

    @property
    def scripts_content(self) -> str:
        """The hash of the lifecycle scripts."""
        return self.cluster.content_of([SCRIPTS])


def platform_bundles(directory: Path, platform: Platform, catalogue: Catalogue) -> Bundles:
    """The platform's bundles: with what goes into its Kubernetes, or with the accounts and users of its Slurm."""
    kubernetes = platform.orchestrator.is_kubernetes
    manifests = (
        cluster_manifests(platform, catalogue)
        if kubernetes
        else {ACCOUNTS_DOCUMENT: slurm_accounts(platform), USERS_DOCUMENT: slurm_users(platform)}
    )
    lists = frozenset(file.name for file in (CHECKOUT / REQUIREMENTS).iterdir())
    nodes = node_parameters(platform, catalogue) if platform.orchestrator.is_hyperpod else None
    arguments = build_arguments(platform, catalogue, load_versions(lists=lists))
    return make_bundles(directory, manifests, arguments, nodes)


def make_bundles(
    directory: Path,
    manifests: Mapping[str, Mapping[str, Any]],
    image_arguments: Mapping[str, str],
    nodes: NodeParameters | None = None,
) -> Bundles:
    """Makes the bundles below a directory that it empties first.

    The cluster's has `manifests/NAME.json` and what the lifecycle scripts of HyperPod nodes know of the platform,
    `nodes/parameters.json`; the image's has `image.json` with the arguments that it is built with.
    """
    shutil.rmtree(directory, ignore_errors=True)
    files = {f"manifests/{name}.json": manifest for name, manifest in manifests.items()}
    if nodes:
        files["nodes/parameters.json"] = nodes.model_dump(mode="json")
    return Bundles(
        mirror=_bundle(directory / "mirror", [STAGES]),
        image=_bundle(directory / "image", [STAGES, *SOURCES], {ARGUMENTS: image_arguments}),
        cluster=_bundle(directory / "cluster", [STAGES, SCRIPTS], files),
    )


def _bundle(directory: Path, parts: Sequence[str], files: Mapping[str, Mapping[str, Any]] | None = None) -> Bundle:
    """A bundle of parts of the repository, and of files that are written as JSON."""
    directory.mkdir(parents=True)
    for part in parts:
        copy = directory / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (CHECKOUT / part).is_dir():
            shutil.copytree(CHECKOUT / part, copy, ignore=SIDE_PRODUCTS)
        else:
            shutil.copyfile(CHECKOUT / part, copy)
    for name, content in (files or {}).items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return Bundle(directory, content_hash(directory, [*parts, *(files or {})]))
