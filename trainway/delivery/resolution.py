"""Which versions of Python packages fit together in the image, as uv finds them in the package index.

uv resolves for a platform other than its own. It is installed into a directory of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import tomllib
import venv
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

UV: Final = "uv==0.13.9"
# That of PyTorch's wheel, so that the image has no older glibc.
PLATFORM: Final = "x86_64-manylinux_2_28"


class UnresolvedError(Exception):
    """No versions fit together, or the index cannot be asked: uv's reason."""


@dataclass(frozen=True)
class Package:
    """A version, and SHA-256 checksums: of its wheels for the platform, or where it has none, of its sources."""

    version: str
    checksums: tuple[str, ...]
    # The address of the sources, where there is no wheel.
    sources: str = ""


Resolution = Mapping[str, Package]


def parsed(lock: Mapping[str, Any]) -> Resolution:
    """Return the packages of a pylock.toml by name. https://packaging.python.org/en/latest/specifications/pylock-toml/"""
    found = {}
    for each in lock["packages"]:
        wheels = each.get("wheels", ())
        checksums = sorted(archive["hashes"]["sha256"] for archive in wheels or [each["sdist"]])
        found[each["name"]] = Package(each["version"], tuple(checksums), "" if wheels else each["sdist"]["url"])
    return found


def besides(resolution: Resolution, *others: Resolution) -> Resolution:
    """Return the packages that the others lack, or have in another version."""
    return {name: each for name, each in resolution.items() if all(other.get(name) != each for other in others)}


def without(resolution: Resolution, names: Collection[str]) -> Resolution:
    """Return the packages that have none of these names."""
    return {name: each for name, each in resolution.items() if name not in names}


def text(packages: Resolution, head: str = "# Written by container/lock.py.\n") -> str:
    """Return the packages as a requirements file for pip, below comments."""
    lines = (
        " \\\n    ".join([f"{name}=={package.version}", *(f"--hash=sha256:{each}" for each in package.checksums)])
        for name, package in packages.items()
    )
    return head + "".join(f"{line}\n" for line in lines)


def pinned(versions: Mapping[str, str]) -> list[str]:
    """Return a line of a requirements file for each package and version."""
    return [f"{name}=={version}" for name, version in versions.items()]


def resolve(
    uv: Path,
    python: str,
    requirements: Iterable[str],
    constraints: Iterable[str],
    *,
    platform: str | None = PLATFORM,
    complete: Mapping[str, str] | None = None,
) -> Resolution:
    """Return what pip would install of the requirements for a Python version, on uv's name of a platform.

    `platform` None is that of this machine. `complete` has versions of packages that are installed with all that they
    require: what else they list is left out. Raises UnresolvedError if no versions fit together.
    """
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        (folder / "requirements.in").write_text("\n".join(requirements))
        (folder / "constraints.txt").write_text("\n".join(constraints))
        # https://docs.astral.sh/uv/reference/settings/#dependency-metadata (read 2026-11-23)
        (folder / "uv.toml").write_text(
            "".join(
                f"[[dependency-metadata]]\nname = {json.dumps(name)}\nversion = {json.dumps(version)}\n"
                "requires-dist = []\n"
                for name, version in (complete or {}).items()
            )
        )
        command = [str(uv), "pip", "compile", "requirements.in", "--constraint", "constraints.txt", "--quiet"]
        known = ["--config-file", "uv.toml"] if complete else []
        target = ["--python-version", python, *(["--python-platform", platform] if platform else [])]
        output = ["--format", "pylock.toml", "--output-file", "pylock.toml"]
        done = subprocess.run(
            [*command, *known, *target, *output], check=False, cwd=folder, stderr=subprocess.PIPE, text=True
        )
        if done.returncode:
            raise UnresolvedError(done.stderr.strip())
        return parsed(tomllib.loads((folder / "pylock.toml").read_text(encoding="utf-8")))


@contextmanager
def found_uv() -> Iterator[Path]:
    """Yield the uv program on PATH, or else an installed one as `installed_uv` does."""
    if found := shutil.which("uv"):
        yield Path(found)
        return
    with installed_uv() as uv:
        yield uv


@contextmanager
def installed_uv() -> Iterator[Path]:
    """Yield uv's program, in a directory that lasts as long. Raises UnresolvedError if pip cannot install it."""
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        command = [f"{directory}/bin/pip", "install", "--quiet", UV]
        done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise UnresolvedError(done.stderr.strip())
        yield Path(directory) / "bin/uv"
