"""Which plugin, libfabric, NCCL, and CUDA runtime a program in the image loads."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from trainway.image_doctor.files import ImageFiles
from trainway.image_doctor.rules import ImageFinding, finding
from trainway.image_doctor.subject import Subject, library_path

_AMAZON: Final = "/opt/amazon/efa/"
# Folders of the plugin: those of its packages for Debian, and of builds from its sources. The packaging of the branch
# v1.21.x of https://github.com/aws/aws-ofi-nccl (read 2026-11-28)
_OURS: Final = re.compile(r"/opt/(amazon/)?(aws-)?ofi-nccl/|/opt/aws-ofi-nccl\S*/")
_OLDEST_NCCL: Final = (2, 17, 1)
_CUDA: Final = "libcudart.so"


def libraries_found(subject: Subject) -> Iterator[ImageFinding]:
    """Yield what is wrong with the libraries of an image. Nothing if a layer is not known, which can have any file."""
    files = subject.files
    if files is None or files.unread:
        return
    path = library_path(subject)
    if not any(each.startswith(_AMAZON) and "/libfabric.so" in each for each in files.libraries):
        yield finding("no-libfabric", subject.name, "the image has no libfabric in /opt/amazon/efa")
    elif (found := files.find("libfabric.so.1", path)) and not found.startswith(_AMAZON):
        yield finding("another-libfabric-is-found", files.layer_of(found), f"a program loads {found}")
    yield from _plugin(subject, files, path)
    version = files.versions().get("NCCL")
    if version and tuple(map(int, re.findall(r"\d+", version)[:3])) < _OLDEST_NCCL:
        yield finding("nccl-is-too-old", subject.name, f"NCCL is {version}")
    for file, directory in files.configured():
        if directory.startswith(("/opt/", "/usr/local/")) and not any(
            posixpath.dirname(each) == files.real(directory) for each in files.kept
        ):
            yield finding("path-leads-nowhere", files.layer_of(file), f"{directory} has no library")


def _plugin(subject: Subject, files: ImageFiles, path: list[str]) -> Iterator[ImageFinding]:
    ours = [each for each in files.libraries if _OURS.match(each) and "/libnccl-net" in each]
    if not ours:
        yield finding("no-plugin", subject.name, "the image has no plugin of AWS for NCCL")
        return
    chosen = subject.value("NCCL_NET_PLUGIN")
    if chosen and not re.fullmatch(r"ofi|aws-ofi|.*\.so", chosen):
        return  # the rule about the variable says so
    found = [(name, files.find(name, path)) for name in _names(chosen)]
    name, file = next(((name, file) for name, file in found if file), (found[0][0], None))
    where = subject.variables["NCCL_NET_PLUGIN"].where if chosen else subject.name
    if file is None:
        yield finding("plugin-is-not-found", where, f"the loader finds no {name}, and the image has {ours[0]}")
    elif not _OURS.match(file):
        yield finding("another-plugin-is-found", files.layer_of(file), f"NCCL loads {file}, and not {ours[0]}")
    if not files.find(_CUDA, [*path, posixpath.dirname(ours[0])]):
        yield finding("cuda-runtime-is-not-found", subject.name, f"the loader finds no {_CUDA}")


def _names(chosen: str | None) -> list[str]:
    """Return the names by which NCCL opens its plugin, in order.

    ncclOpenPluginLib in src/plugin/plugin_open.cc of NCCL 2.30 (read 2026-12-01)
    """
    if not chosen:
        return ["libnccl-net.so"]
    return [chosen] if "/" in chosen else [chosen, f"libnccl-net-{chosen}.so"]
