"""Cloud assemblies below build/syntheses, shared by the test files, the processes, and the runs of the tests.

The key of an assembly is a hash of everything that a synthesis reads: the platform, its lock, its extension, the
sources, the list of installed packages, and the CDK's environment variables. A test that replaces a part of the
sources, for example a catalogue, must call `make_app` of tests/synthesis.py instead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from trainway.spec.platform import Platform

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "syntheses"
SOURCES = (
    *("app.py", "cdk.json", "constraints.txt", "package-lock.json", "pyproject.toml"),
    *("container", "delivery", "lifecycle_scripts", "stacks", "training", "trainway"),
)
State = Mapping[str, tuple[int, int, int]]
# Assemblies of earlier sources are deleted after so many seconds.
EARLIER_SECONDS = 3600


def assembly_of(platform: Platform, synthesize: Callable[[Platform, Path], None]) -> Path:
    """Return the directory of the platform's cloud assembly, which nobody may change.

    `synthesize` writes the assembly to a directory. It is called if no process has kept one for this platform and these
    sources. Processes that ask for the same assembly at the same time wait for the first of them.
    """
    sources, state = _sources()
    beside = (platform.lock.model_dump_json(), platform.extension, _added(platform))
    read = (type(platform), platform.model_dump_json(), *beside, _environment())
    key = sha256(" ".join(map(str, read)).encode()).hexdigest()[:16]
    kept = _folder(sources) / key
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            made = Path(tempfile.mkdtemp(dir=kept.parent))
            synthesize(platform, made)
            # Somebody may have edited a file meanwhile. The assembly is then that of no sources, and nobody else's.
            if _state() != state:
                return made
            made.rename(kept)
    return kept


def _added(platform: Platform) -> str:
    """Return what the platform's images have on their bases, with the contents of the Dockerfiles' directories."""
    found = []
    for name in platform.image_names:
        added = platform.of_image(name).additions
        folder = added.dockerfile
        files = (
            [(str(each), each.read_bytes()) for each in sorted(folder.rglob("*")) if each.is_file()] if folder else []
        )
        found.append((name, added.packages, files))
    return repr(found)


@cache
def _sources() -> tuple[str, State]:
    """Return the hash of the sources, and the state of their files before they were read."""
    state = _state()
    return read_sources(), state


def _state() -> State:
    """Return the mode, the size, and the time of the last change of each file that a synthesis reads.

    An edit changes the state, which takes a fifth of the CPU time of the hash.
    """
    found = ((file, Path(file).stat()) for file in _files())
    return {file: (each.st_mode, each.st_size, each.st_mtime_ns) for file, each in found}


def read_sources() -> str:
    """Return a hash of the names, modes, and contents of all files that a synthesis reads, and of what is installed."""
    hashed = sha256(sys.version.encode())
    # An environment may have other versions than constraints.txt, for example of the CDK.
    installed = Path(sysconfig.get_path("purelib")).glob("*.dist-info")
    hashed.update(" ".join(sorted(each.name for each in installed)).encode())
    for name in _files():
        file = Path(name)
        state = file.stat()
        hashed.update(f"{file.relative_to(ROOT)} {state.st_mode} {state.st_size}\n".encode())
        hashed.update(file.read_bytes())
    return hashed.hexdigest()[:16]


def _files() -> Iterator[str]:
    for name in SOURCES:
        path = ROOT / name
        yield from _below(str(path)) if path.is_dir() else [str(path)]


def _below(directory: str) -> Iterator[str]:
    """Yield the files below a directory, without compiled Python."""
    with os.scandir(directory) as listed:
        entries = sorted(listed, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _below(entry.path)
        elif entry.is_file():
            yield entry.path


@cache
def _folder(sources: str) -> Path:
    """Return the folder of these sources, after deleting what is left of earlier ones."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for folder in KEPT.iterdir():
        # Another process may be deleting the same folder.
        with contextlib.suppress(FileNotFoundError):
            if folder.name != sources and folder.stat().st_mtime < time.time() - EARLIER_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
    (KEPT / sources).mkdir(exist_ok=True)
    # For whoever runs other sources meanwhile.
    os.utime(KEPT / sources)
    return KEPT / sources


def _environment() -> str:
    return repr(sorted((name, value) for name, value in os.environ.items() if name.startswith(("CDK_", "JSII_"))))
