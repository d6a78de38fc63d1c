"""Images in files: an OCI layout in a directory, and archives of `docker save` and `skopeo copy`."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from trainway.image_doctor.stored_image import LARGEST_DOCUMENT, not_an_image

INDEX: Final = "index.json"
# Docker before 25 writes it alone.
_OF_DOCKER: Final = "manifest.json"


class FileBlobs:
    """An image in a directory or an archive. https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md"""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def manifest(self, digest: str | None) -> Mapping[str, Any]:
        """Return the manifest of a digest, or that of the only image, or of several for several architectures."""
        if digest is not None:
            return self._json(_blob(digest))
        try:
            index = self._json(INDEX)
        except KeyError:
            return self._of_docker()
        return index

    def _of_docker(self) -> Mapping[str, Any]:
        """Return the same of an archive of an older Docker, which names files in the place of digests."""
        try:
            listed: Any = self._json(_OF_DOCKER)
            first = listed[0]
            return {"config": {"digest": first["Config"]}, "layers": [{"digest": each} for each in first["Layers"]]}
        except (KeyError, IndexError, TypeError):
            raise not_an_image(self.name, f"it has no {INDEX} and no {_OF_DOCKER} of an image") from None

    def _json(self, name: str) -> Mapping[str, Any]:
        try:
            with self._member(name) as stream:
                found: Mapping[str, Any] = json.loads(stream.read(LARGEST_DOCUMENT))
        except ValueError as error:
            raise not_an_image(self.name, f"{name} is no JSON: {error}") from None
        return found

    @contextmanager
    def open(self, digest: str) -> Iterator[IO[bytes]]:
        """Open a blob by its digest, or by its name in an archive of an older Docker."""
        name = _blob(digest) if digest.startswith("sha256:") else digest
        try:
            with self._member(name) as stream:
                yield stream
        except KeyError:
            raise not_an_image(self.name, f"it has no {name}") from None

    @contextmanager
    def _member(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file of the image. Raises KeyError if the image does not have it."""
        if self._path.is_dir():
            file = self._path / name
            if not file.resolve().is_relative_to(self._path.resolve()) or not file.is_file():
                raise KeyError(name)
            with file.open("rb") as stream:
                yield stream
            return
        try:
            with tarfile.open(self._path) as archive:
                found = archive.extractfile(_member_named(archive, name))
                if found is None:
                    raise KeyError(name)
                yield found
        except (tarfile.ReadError, OSError) as error:
            raise not_an_image(self.name, f"it is no archive: {error}") from None


def _member_named(archive: tarfile.TarFile, name: str) -> tarfile.TarInfo:
    try:
        return archive.getmember(name)
    except KeyError:
        return archive.getmember(f"./{name}")


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/', 1)}"
