"""An image as a registry or a file keeps it: its configuration and its layers, as the rules read them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, Final, Protocol

from trainway.image_doctor.dockerfile import filled, pairs
from trainway.image_doctor.files import ImageFiles
from trainway.image_doctor.layers import UnreadableLayerError, entries_of
from trainway.image_doctor.subject import Base, BuildStep, Subject, Variable
from trainway.spec.errors import UsageError, usage_error

MANIFESTS: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
# A list of packages in a label can be long.
LARGEST_DOCUMENT: Final = 32 * 2**20
_BASE_LABEL: Final = "org.opencontainers.image.base.name"
# What builders write in front of a command: BuildKit, and Docker's older builder.
_NOT_RUN: Final = re.compile(r"^/bin/sh -c #\(nop\)\s+")
_ARGUMENTS: Final = re.compile(r"^(?:RUN )?\|\d+ (?P<words>.*?) (?P<shell>/bin/\S+)(?: -\w+)+ ")
_SHELL: Final = re.compile(r"^(?:RUN )?/bin/\S+(?: -\w+)+ ")


class Blobs(Protocol):
    """Where an image is kept."""

    name: str

    def manifest(self, digest: str | None) -> Mapping[str, Any]:
        """Return the manifest of a digest, or that of the image. Raises UsageError if it cannot be read."""

    def open(self, digest: str) -> AbstractContextManager[IO[bytes]]:
        """Open a blob. Raises UsageError if it cannot be read."""


def stored_subject(blobs: Blobs, *, architecture: str, with_layers: bool) -> Subject:
    """Return an image for the rules. Raises UsageError if it cannot be read, or is not for the architecture."""
    manifest = blobs.manifest(None)
    try:
        if "manifests" in manifest:
            manifest = blobs.manifest(_of_architecture(blobs.name, manifest["manifests"], architecture))
        digest, layers = manifest["config"]["digest"], [each["digest"] for each in manifest["layers"]]
        with blobs.open(digest) as stream:
            config = json.loads(stream.read(LARGEST_DOCUMENT))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise not_an_image(blobs.name, f"its manifest or its configuration cannot be read: {error!r}") from None
    files = _files(blobs, layers) if with_layers else None
    return config_subject(blobs.name, config, files)


def not_an_image(name: str, why: str) -> UsageError:
    """Return the error for something that is no image that can be read."""
    fix = "name an image, a Dockerfile, an OCI layout, or an archive of `docker save` or `skopeo copy`"
    return usage_error(f"{name} cannot be read as an image", why=why, fix=fix)


def _of_architecture(name: str, manifests: Sequence[Mapping[str, Any]], architecture: str) -> str:
    for each in manifests:
        platform = each.get("platform") or {}
        if platform.get("architecture", architecture) == architecture and platform.get("os", "linux") == "linux":
            return str(each["digest"])
    raise not_an_image(name, f"it has no image for linux/{architecture}")


def _files(blobs: Blobs, layers: Sequence[str]) -> ImageFiles:
    files = ImageFiles()
    for number, digest in enumerate(layers, start=1):
        try:
            with blobs.open(digest) as stream:
                files.add(entries_of(stream))
        except UnreadableLayerError as error:
            files.layers = number
            files.unread.append(f"layer {number} was not read: {error}")
    return files


def config_subject(name: str, config: Mapping[str, Any], files: ImageFiles | None = None) -> Subject:
    """Return an image by its configuration. https://github.com/opencontainers/image-spec/blob/v1.1.1/config.md

    Its steps are those of its history, which the builder writes. Raises UsageError for a document that is none.
    """
    try:
        container = config.get("config") or {}
        labels = dict(container.get("Labels") or {})
        history = [str(each.get("created_by") or "") for each in config.get("history") or ()]
        stated = [str(each).partition("=") for each in container.get("Env") or ()]
    except (AttributeError, TypeError) as error:
        raise not_an_image(name, f"its configuration has another form: {error}") from None
    steps = tuple(step for number, text in enumerate(history, start=1) if (step := _step(number, text)))
    where = {key: step.where for step in steps if step.word == "ENV" for key in pairs(step.text)}
    variables = {key: Variable(value, where.get(key, "the configuration")) for key, _, value in stated}
    bases = (Base(labels[_BASE_LABEL], f"the label {_BASE_LABEL}"),) if labels.get(_BASE_LABEL) else ()
    return Subject(name, bases, steps, variables, files, labels)


def _step(number: int, text: str) -> BuildStep | None:
    where = f"step {number} of the history"
    text = text.removesuffix(" # buildkit")
    if found := _ARGUMENTS.match(text):
        return BuildStep("RUN", filled(text[found.end() :], pairs(found["words"])), where)
    if _NOT_RUN.match(text):
        word, _, rest = _NOT_RUN.sub("", text).partition(" ")
        return BuildStep(word.upper(), rest.strip(), where)
    if found := _SHELL.match(text):
        return BuildStep("RUN", text[found.end() :], where)
    word, _, rest = text.partition(" ")
    return BuildStep(word, rest, where) if word.isupper() else None
