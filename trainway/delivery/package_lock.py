"""Writes the lock of the Python packages that a platform adds to its image."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from trainway.delivery.resolution import Package, Resolution, UnresolvedError, installed_uv, pinned, resolve, text
from trainway.parts.checkout import CHECKOUT
from trainway.spec.errors import usage_error
from trainway.spec.facts.versions import Versions, images_of, release, requirements_of
from trainway.spec.image.image_build import beside, combination_of, has_the_agent
from trainway.spec.loader import load_versions
from trainway.spec.package_lock import header, package_lock_file
from trainway.spec.platform import Platform

# What PyTorch was built with, and what was compiled for it. No addition changes them.
KEPT: Final = re.compile(r"torch|triton|numpy|nvidia-.+|cuda-.+|transformer-engine.*|hyperpod-elastic-agent")
# What is in no list of the image: a virtual environment has pip, and PyTorch has a checksum of its own.
ELSEWHERE: Final = ("pip", "torch")
_PACKAGE: Final = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class WrittenLock:
    """The text of a lock, the packages that it adds, and those of the image that it changes, as `NAME==VERSION`."""

    text: str
    added: tuple[str, ...]
    changed: tuple[str, ...]


def lists_of(platform: Platform, versions: Versions) -> list[Path]:
    """Return the lists of container/requirements that the platform's image is built from, in the order of the build."""
    chosen = combination_of(platform, versions)
    names = [requirements_of("pytorch", chosen.pytorch), "build-tools.txt", "training.txt"]
    if "transformer-engine" in platform.image.add:
        names.append(requirements_of("transformer-engine", chosen.transformer_engine))
    if "nemo" in platform.image.add:
        names.append(requirements_of("nemo", chosen.nemo))
    if "flash-attention" in platform.image.add:
        names.append(requirements_of("flash-attention", chosen.flash_attention))
    if has_the_agent(platform, versions) and chosen.hyperpod_elastic_agent:
        names.append(requirements_of("hyperpod-elastic-agent", chosen.hyperpod_elastic_agent))
    return [CHECKOUT / "container/requirements" / name for name in names]


def lists_hash(platform: Platform, versions: Versions) -> str:
    """Return the hash of the packages that the image has, by which a lock is found to be older than they are."""
    return sha256(repr(sorted(image_packages(platform, versions).items())).encode()).hexdigest()[:16]


def image_packages(platform: Platform, versions: Versions) -> dict[str, str]:
    """Return the versions of the image's Python packages by name."""
    chosen = combination_of(platform, versions)
    found = {"torch": chosen.pytorch}
    for file in lists_of(platform, versions):
        found |= dict(_PACKAGE.findall(file.read_text(encoding="utf-8")))
    if "transformer-engine" in platform.image.add:
        engine = release(versions.transformer_engine, chosen.transformer_engine)
        assert engine, "VERSION_RULES let nothing else pass"
        parts = ("transformer-engine", f"transformer-engine-cu{engine.cuda}", "transformer-engine-torch")
        found |= dict.fromkeys(parts, engine.version)
    return found


def lock_packages(platform: Platform, platform_file: Path) -> WrittenLock:
    """Resolve `image.packages.pip` beside the image's own packages.

    The image keeps its versions if it can. Otherwise packages that KEPT does not name may change. Raises UsageError if
    the platform file names no packages, no versions fit together, or the index cannot be asked.
    """
    requested = platform.image.packages.pip
    if not requested:
        fix = "write `image: {packages: {pip: [einops==0.8.1]}}`, for example"
        raise usage_error(
            f"{platform_file} needs no {package_lock_file(platform_file, platform.image_name).name}",
            why="image.packages.pip names no packages",
            fix=fix,
        )
    versions = load_versions()
    there = image_packages(platform, versions)
    try:
        resolution = _resolved(platform, versions, there)
    except UnresolvedError as error:
        raise usage_error(
            f"{platform_file}: the packages {', '.join(requested)} do not fit into the image",
            why=" ".join(str(error).split()),
            fix="name other versions of them, or choose another combination as image.versions. The image keeps "
            f"{named_packages(there)}, and its CUDA packages",
        ) from None
    new = additions(resolution, there)
    lists = lists_hash(platform, versions)
    head = header(platform_file, requested, beside(platform, versions), lists, platform.image_name)
    return WrittenLock(
        text=text(new, head),
        added=tuple(f"{name}=={package.version}" for name, package in new.items()),
        changed=tuple(f"{name}=={there[name]}" for name in new if name in there),
    )


def additions(resolution: Resolution, there: Mapping[str, str]) -> dict[str, Package]:
    """Return the packages of a resolution that are not there in the same version, in the order of their names."""
    return {
        name: package
        for name, package in sorted(resolution.items())
        if there.get(name) != package.version and name not in ELSEWHERE
    }


def _resolved(platform: Platform, versions: Versions, there: Mapping[str, str]) -> Resolution:
    images = images_of(versions, combination_of(platform, versions))
    assert images, "VERSION_RULES let nothing else pass"
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    job = project["project"]["optional-dependencies"]["training"]
    # What must stay is required and not only constrained: uv then names who wants another version.
    required = [*platform.image.packages.pip, f"torch=={there['torch']}", *job]
    required += [f"nemo-automodel=={there['nemo-automodel']}"] if "nemo" in platform.image.add else []
    required += [f"flash-attn-4=={there['flash-attn-4']}"] if "flash-attention" in platform.image.add else []
    with installed_uv() as uv:
        return resolve_beside(lambda asked, held: resolve(uv, images.python, asked, held), required, there)


def resolve_beside(
    resolved: Callable[[Sequence[str], Sequence[str]], Resolution], required: Sequence[str], there: Mapping[str, str]
) -> Resolution:
    """Return the packages that requirements need beside those that are there, and change as few of these as possible.

    `resolved` resolves requirements under constraints. What KEPT names never changes. Raises UnresolvedError if no
    versions fit together.
    """
    try:
        return resolved(required, pinned(there))
    except UnresolvedError:
        kept = kept_packages(there)
        found = resolved(required, pinned(kept))
    # uv takes the newest of what is free. What need not change stays.
    free = [name for name, package in found.items() if there.get(name, package.version) != package.version]
    kept = {name: version for name, version in there.items() if name not in free}
    for name in free:
        with suppress(UnresolvedError):
            found = resolved(required, pinned(kept | {name: there[name]}))
            kept[name] = there[name]
    return found


def named_packages(there: Mapping[str, str]) -> str:
    """Return the packages that no addition changes with their versions, for a message, without those of CUDA."""
    return ", ".join(f"{name} {version}" for name, version in kept_packages(there).items() if "-" not in name)


def kept_packages(there: Mapping[str, str]) -> dict[str, str]:
    """Return the packages that no addition changes, with their versions."""
    return {name: version for name, version in there.items() if KEPT.fullmatch(name)}
