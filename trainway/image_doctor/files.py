"""The files of an image that decide which libraries a program loads, after all of its layers."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Final

LD_SO_CONF: Final = "/etc/ld.so.conf"
INSTALLED: Final = "/opt/amazon/efa_installed_packages"
DPKG: Final = "/var/lib/dpkg/status"
HPCX: Final = "/opt/hpcx"
# Where the loader looks last: ld.so(8), and the directories of Debian and of Red Hat.
_DEFAULT: Final = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
)
_LIBRARY: Final = re.compile(r"/lib(nccl|fabric|cudart|ucp|mpi)[\w-]*\.so(\.[\d.]+)?$")
_TEXT: Final = re.compile(rf"{LD_SO_CONF}(\.d/[^/]+\.conf)?|{INSTALLED}|{DPKG}")
_PACKAGE: Final = re.compile(r"/(torch|nvidia_nccl_cu\d+)-([\w.+]+)\.dist-info/METADATA$")
# dpkg's list of an image with a desktop has less.
_LARGEST_TEXT: Final = 16 * 2**20
_MOST_LINKS: Final = 40


@dataclass(frozen=True)
class LayerEntry:
    """An entry of a layer: its absolute path, the target of a link, and an opened file to read a text from."""

    path: str
    link: str | None = None
    content: IO[bytes] | None = None


@dataclass(frozen=True)
class Kept:
    """A file that the rules read: the number of the layer that has it, from 1, the target of a link, and its text."""

    layer: int
    link: str | None = None
    text: str = ""


@dataclass
class ImageFiles:
    """The libraries, links, and texts of an image, of which `add` takes the layers, the lowest first.

    https://github.com/opencontainers/image-spec/blob/v1.1.1/layer.md (read 2026-12-01)
    """

    kept: dict[str, Kept] = field(default_factory=dict)
    layers: int = 0
    unread: list[str] = field(default_factory=list)
    """Why layers could not be read, a sentence for each."""

    def add(self, entries: Iterable[LayerEntry]) -> None:
        """Apply a layer. What a layer removes, it removes of the layers below it."""
        self.layers += 1
        added = dict[str, Kept]()
        for entry in entries:
            directory, name = posixpath.split(entry.path)
            if name == ".wh..wh..opq":
                self._remove_below(directory)
            elif name.startswith(".wh."):
                self._remove(posixpath.join(directory, name.removeprefix(".wh.")))
            else:
                if entry.link is not None:
                    self._remove(entry.path)
                added |= self._of_entry(entry)
        self.kept |= added

    def _of_entry(self, entry: LayerEntry) -> dict[str, Kept]:
        if f"{entry.path}/".startswith(f"{HPCX}/"):
            kept = {HPCX: Kept(self.layers)} if HPCX not in self.kept else {}
        else:
            kept = {}
        if entry.content and _TEXT.fullmatch(entry.path):
            text = entry.content.read(_LARGEST_TEXT).decode("utf-8", "replace")
            return kept | {entry.path: Kept(self.layers, text=text)}
        if entry.link is not None or _LIBRARY.search(entry.path) or _PACKAGE.search(entry.path):
            return kept | {entry.path: Kept(self.layers, entry.link)}
        return kept

    def _remove(self, path: str) -> None:
        self.kept.pop(path, None)
        self._remove_below(path)

    def _remove_below(self, directory: str) -> None:
        before = f"{directory.rstrip('/')}/"
        for path in [each for each in self.kept if each.startswith(before)]:
            del self.kept[path]

    @property
    def libraries(self) -> list[str]:
        """The paths of the libraries of the fabric, NCCL, CUDA's runtime, UCX, and MPI that are no links."""
        return sorted(path for path, each in self.kept.items() if each.link is None and _LIBRARY.search(path))

    @property
    def has_hpcx(self) -> bool:
        """Whether the image has HPC-X, NVIDIA's MPI, UCX, and collectives."""
        return HPCX in self.kept

    def layer_of(self, path: str) -> str:
        """Return in which layer a file is, for people."""
        return f"{path} of layer {self.kept[path].layer}"

    def _text(self, path: str) -> str:
        return self.kept[path].text if path in self.kept else ""

    def real(self, path: str) -> str:
        """Return a path without links. A path whose links are a circle is returned as it is."""
        for _ in range(_MOST_LINKS):
            parts = path.strip("/").split("/")
            for number in range(1, len(parts) + 1):
                before = "/" + "/".join(parts[:number])
                if before in self.kept and (link := self.kept[before].link) is not None:
                    target = posixpath.join(posixpath.dirname(before), link)
                    path = posixpath.normpath(posixpath.join(target, *parts[number:]))
                    break
            else:
                return "/" + "/".join(parts)
        return path

    def find(self, name: str, directories: Iterable[str]) -> str | None:
        """Return the file, without links, that a loader opens by a name, or None if no directory has it."""
        if "/" in name:
            return self._library(name)
        every = (*directories, *self.configured_directories(), *_DEFAULT)
        return next(filter(None, (self._library(f"{directory}/{name}") for directory in every)), None)

    def _library(self, path: str) -> str | None:
        real = self.real(path)
        return real if real in self.kept and _LIBRARY.search(real) else None

    def configured_directories(self) -> list[str]:
        """Return the directories of ld.so.conf, in order."""
        return [directory for _, directory in self.configured()]

    def configured(self) -> Iterator[tuple[str, str]]:
        """Yield the directories of ld.so.conf and of the files that it includes, each with its file."""
        for file in sorted(path for path in self.kept if path.startswith(LD_SO_CONF)):
            for line in self._text(file).splitlines():
                word = line.partition("#")[0].strip()
                if word.startswith("/"):
                    yield file, word.rstrip("/")

    def versions(self) -> dict[str, str]:
        """Return the versions of the installer, of packages, and of libraries, as far as files state them."""
        found = dict[str, str]()
        if match := re.search(r"EFA installer version: (\S+)", self._text(INSTALLED)):
            found["EFA installer"] = match[1]
        for name, version in _debian_packages(self._text(DPKG)):
            if name.startswith("libnccl-ofi"):
                found["aws-ofi-nccl"] = version
            elif re.fullmatch(r"libfabric\d*-aws", name):
                found["libfabric"] = version
            elif name == "libnccl2":
                found["NCCL"] = version
        for path in sorted(self.libraries):
            if match := re.search(r"/libnccl\.so\.(\d+\.\d+[.\d]*)$", path):
                found["NCCL"] = match[1]
        for match in filter(None, map(_PACKAGE.search, sorted(self.kept))):
            found["PyTorch" if match[1] == "torch" else "NCCL"] = match[2]
        if self.has_hpcx:
            found["HPC-X"] = "in /opt/hpcx"
        return found


def _debian_packages(status: str) -> Iterator[tuple[str, str]]:
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if re.match(r"[\w-]+: ", line))
        if fields.get("Status", "").endswith(" installed") and "Version" in fields:
            yield fields["Package"], fields["Version"].partition("-")[0]
