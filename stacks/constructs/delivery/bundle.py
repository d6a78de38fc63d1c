"""The files of this repository that a delivery pipeline uses, as one archive."""

from __future__ import annotations

import functools
import json
import shutil
import stat
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from delivery.content_hash import ADDITIONS, ARGUMENTS, NONE, SOURCES, content_hash, image_hash
from trainway.delivery.additions import write_additions
from trainway.manifests import cluster_manifests
from trainway.monitoring.slurm_scraping import slurm_scrape_document
from trainway.parts.checkout import CHECKOUT
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.image.image_build import build_arguments
from trainway.spec.loader import load_versions
from trainway.spec.observability.collection import SCRAPING_DOCUMENT, Collector, collector_of
from trainway.spec.platform import Platform
from trainway.spec.slurm.node_parameters import NodeParameters, node_parameters
from trainway.spec.slurm.slurm_accounts import ACCOUNTS_DOCUMENT, slurm_accounts
from trainway.spec.slurm.slurm_users import USERS_DOCUMENT, slurm_users

# Maintainers run refresh_lock. A change of it runs no stage.
SIDE_PRODUCTS = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache", "refresh_lock")
# The first time that a ZIP archive can hold. Archives of the same files are then the same, whenever they are written.
LONG_AGO = (1980, 1, 1, 0, 0, 0)
# What every pipeline's stages begin with.
STAGES = "delivery"
SCRIPTS = "lifecycle_scripts"
# The authorities that every stage trusts, and what checks them. The cluster's bundle has all of the scripts.
AUTHORITIES = (f"{SCRIPTS}/certificates.py", f"{SCRIPTS}/yours/certificates")
# What PyTorch and add-ons require, in one file per release.
REQUIREMENTS = "container/requirements"


@dataclass(frozen=True)
class Bundle:
    """A directory for one pipeline's source, and the hash of all of it."""

    directory: Path
    content: str

    def archive(self, folder: Path) -> Path:
        """Write the bundle as a ZIP archive to a folder, and return the archive.

        The CDK copies and hashes this one file. Of a directory it would copy some hundred files one by one.
        """
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / f"{self.directory.name}.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
            for file in sorted(each for each in self.directory.rglob("*") if each.is_file()):
                entry = zipfile.ZipInfo(file.relative_to(self.directory).as_posix(), LONG_AGO)
                # Whether a file can be executed counts. The rest of the mode is that of whoever checked it out.
                mode = 0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644
                entry.external_attr = (stat.S_IFREG | mode) << 16
                written.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
        return archive

    def content_of(self, parts: Sequence[str]) -> str:
        """The hash of some of its parts."""
        return content_hash(self.directory, parts)


@dataclass(frozen=True)
class ImageBundle(Bundle):
    """The bundle of the pipeline that builds an image, and the tags of what its stages build."""

    @cached_property
    def tag(self) -> str:
        """The tag of the image: the hash of what it is made of."""
        return self._hash("image")

    @cached_property
    def base_tag(self) -> str:
        """The tag of the base of the image."""
        return self._hash("base")

    @cached_property
    def packages_tag(self) -> str | None:
        """The tag of the base with the packages that the platform adds, or None without any."""
        return self._tag("packages")

    @cached_property
    def dockerfile_tag(self) -> str | None:
        """The tag of what the platform's Dockerfile builds, or None without one."""
        return self._tag("dockerfile")

    @cached_property
    def arguments(self) -> str:
        """The file of the arguments that the image is built with."""
        return (self.directory / ARGUMENTS).read_text(encoding="utf-8")

    def _tag(self, what: str) -> str | None:
        tag = self._hash(what)
        return None if tag == NONE else tag

    def _hash(self, what: str) -> str:
        return image_hash(self.directory, what, json.loads(self.arguments))


@dataclass(frozen=True)
class Bundles:
    """One bundle a pipeline, so that a change of a file runs only the stages that it concerns.

    `images` has the bundle of each image of the platform, by the image's name.
    """

    mirror: Bundle
    images: Mapping[str, ImageBundle]
    cluster: Bundle

    @property
    def image(self) -> ImageBundle:
        """The bundle of the image that jobs use by default."""
        return self.images[DEFAULT_IMAGE]

    @property
    def scripts_content(self) -> str:
        """The hash of the lifecycle scripts."""
        return self.cluster.content_of([SCRIPTS])


def platform_bundles(directory: Path, platform: Platform, catalogue: Catalogue) -> Bundles:
    """Return the bundles of a platform. They contain its Kubernetes objects, or its Slurm accounts and users."""
    kubernetes = platform.orchestrator.is_kubernetes
    manifests = cluster_manifests(platform, catalogue) if kubernetes else slurm_documents(platform, catalogue)
    lists = frozenset(file.name for file in (CHECKOUT / REQUIREMENTS).iterdir())
    nodes = node_parameters(platform, catalogue) if platform.orchestrator.is_hyperpod else None
    versions = load_versions(lists=lists)
    images = {
        name: ImageParts(
            build_arguments(platform.of_image(name), catalogue, versions),
            functools.partial(write_additions, platform.of_image(name)),
        )
        for name in platform.image_names
    }
    return make_bundles(directory, manifests, images, nodes)


def slurm_documents(platform: Platform, catalogue: Catalogue) -> dict[str, dict[str, Any]]:
    """Return the documents that Slurm nodes download at intervals: accounts, users, and the scrape configuration."""
    documents = {ACCOUNTS_DOCUMENT: slurm_accounts(platform), USERS_DOCUMENT: slurm_users(platform)}
    if collector_of(platform) is Collector.AGENT:
        documents[SCRAPING_DOCUMENT] = slurm_scrape_document(platform, catalogue)
    return documents


class ImageParts(NamedTuple):
    """What an image's bundle has of the platform: the build's arguments, and what `add` writes to a folder, if any."""

    arguments: Mapping[str, str]
    add: Callable[[Path], None] = lambda _: None


def make_bundles(
    directory: Path,
    manifests: Mapping[str, Mapping[str, Any]],
    images: Mapping[str, ImageParts],
    nodes: NodeParameters | None = None,
) -> Bundles:
    """Write the bundles below a directory, which is emptied first.

    The cluster's has `manifests/NAME.json` and what the lifecycle scripts of HyperPod nodes know of the platform,
    `nodes/parameters.json`; an image's has `image.json` with the arguments that it is built with, and the folder
    `additions` if something is added to its base.
    """
    shutil.rmtree(directory, ignore_errors=True)
    files = {f"manifests/{name}.json": manifest for name, manifest in manifests.items()}
    if nodes:
        files["nodes/parameters.json"] = nodes.model_dump(mode="json")
    return Bundles(
        mirror=_bundle(directory / "mirror", [STAGES, *AUTHORITIES]),
        images={name: _image_bundle(directory, name, parts) for name, parts in images.items()},
        cluster=_bundle(directory / "cluster", [STAGES, SCRIPTS], files),
    )


def _image_bundle(directory: Path, name: str, parts: ImageParts) -> ImageBundle:
    folder = directory / (name if name == DEFAULT_IMAGE else f"{DEFAULT_IMAGE}-{name}")
    made = _bundle(folder, [STAGES, *AUTHORITIES, *SOURCES], {ARGUMENTS: parts.arguments}, parts.add)
    return ImageBundle(made.directory, made.content)


def _bundle(
    directory: Path,
    parts: Sequence[str],
    files: Mapping[str, Mapping[str, Any]] | None = None,
    add: Callable[[Path], None] = lambda _: None,
) -> Bundle:
    """Return a bundle of parts of the repository, of files that are written as JSON, and of what `add` writes."""
    directory.mkdir(parents=True)
    for part in parts:
        copy = directory / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (CHECKOUT / part).is_dir():
            shutil.copytree(CHECKOUT / part, copy, ignore=SIDE_PRODUCTS, copy_function=shutil.copy)
        else:
            shutil.copyfile(CHECKOUT / part, copy)
    for name, content in (files or {}).items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    add(directory / ADDITIONS)
    added = [ADDITIONS] if (directory / ADDITIONS).exists() else []
    return Bundle(directory, content_hash(directory, [*parts, *(files or {}), *added]))
