"""What is kept of each release: the examples as it deploys them, in releases/VERSION/platforms.json.xz.

Of each example there are the platform file, the lock of its first deploy, and the templates. What changes with every
edit of a delivered file, such as the hashes of assets, is masked as in the golden templates, and filled with zeros
where the templates are deployed.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.synthesis import ROOT, Template, assembly_in, golden_text, stack_dependencies, templates_of
from trainway.spec.deployment.next_lock import next_lock
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.kubernetes_versions import numbers
from trainway.spec.loader import load_platform
from trainway.spec.lock import lock_file, lock_text
from trainway.spec.platform import Platform

RELEASES: Final = ROOT / "releases"
# Masks of golden templates that a template can be deployed with.
FILLED: Final = (("<asset>", "0" * 64), ("<content>", "0" * 16), ("<version>", "0.0.0"))


@dataclass(frozen=True)
class KeptPlatform:
    """An example as a release deploys it: its two files, its masked templates, and what each stack comes after."""

    file: str
    lock: str
    templates: dict[str, str]
    after: dict[str, list[str]]

    def platform(self, directory: Path) -> Platform:
        """Write the two files into a directory, and return the platform that this version reads in them."""
        file = directory / "platform.yaml"
        file.write_text(self.file, encoding="utf-8")
        lock_file(file).write_text(self.lock, encoding="utf-8")
        return load_platform(file)

    def deployable(self) -> dict[str, Template]:
        """Return the templates with zeros in place of the masks."""
        return {role: json.loads(filled(text)) for role, text in self.templates.items()}


def filled(masked: str) -> str:
    """Return a masked template that can be deployed."""
    for mask, filling in FILLED:
        masked = masked.replace(mask, filling)
    return masked


def masked_templates(platform: Platform) -> dict[str, str]:
    """Return what this version makes of a platform, masked, by the stack's role."""
    return {role: golden_text(template) for role, template in templates_of(platform).items()}


def as_of_today(file: Path, directory: Path) -> KeptPlatform:
    """Return an example as this version deploys it for the first time, with the lock that `trainway lock` writes."""
    text = file.read_text(encoding="utf-8")
    lock = lock_text(next_lock(load_platform(file), load_catalogue()))
    platform = KeptPlatform(text, lock, {}, {}).platform(directory)
    return KeptPlatform(text, lock, masked_templates(platform), stack_dependencies(assembly_in(platform)))


def write_release(version: str, examples: Mapping[str, KeptPlatform]) -> Path:
    """Keep the examples as what a version deploys, and return the file."""
    kept = {name: asdict(each) for name, each in sorted(examples.items())}
    file = RELEASES / version / "platforms.json.xz"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lzma.compress(json.dumps(kept, sort_keys=True).encode(), preset=9))
    return file


def read_release(version: str) -> dict[str, KeptPlatform]:
    """Return the examples as a version deploys them, by name."""
    text = lzma.decompress((RELEASES / version / "platforms.json.xz").read_bytes())
    kept: dict[str, dict[str, Any]] = json.loads(text)
    return {name: KeptPlatform(**each) for name, each in kept.items()}


def kept_versions() -> list[str]:
    """Return the versions that are kept, oldest first."""
    return sorted((file.parent.name for file in RELEASES.glob("*/platforms.json.xz")), key=numbers)


def baseline(version: str, released: list[str]) -> str:
    """Return the version whose platforms `version` must upgrade: the last released one.

    While nothing was released, it is what is kept of `version` itself.
    """
    kept = [each for each in kept_versions() if each in released and numbers(each) <= numbers(version)]
    return kept[-1] if kept else version
