"""The platforms whose artifacts the seams' readers read: every example, and a matrix of other shapes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.people import with_people
from tests.representatives import PLATFORMS, representatives_and_every
from tests.synthesis import EXAMPLES, ROOT
from trainway.delivery.package_lock import lists_hash
from trainway.spec.image.image_build import beside
from trainway.spec.loader import load_platform, load_versions
from trainway.spec.package_lock import header, package_lock_file
from trainway.spec.platform import Platform

# The platforms in `make test`: an example of each orchestrator, and two shapes with training jobs, secrets, and roles
# for people. The planted errors need a synthesis of most of them in any case.
REPRESENTATIVES = (*PLATFORMS, "several-teams", "slurm-homes")
SHAPES_FILE = Path(__file__).with_name("shapes.yaml")
IN_ONE_REGION = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"]}


@cache
def platforms() -> dict[str, Platform]:
    """Return every example and every shape by name, each loaded and checked as `trainway check` does."""
    with tempfile.TemporaryDirectory() as directory:
        files = [*EXAMPLES, *write_shapes(Path(directory))]
        return {file.stem: load_platform(file) for file in files}


def some_and_all_platforms(representatives: Sequence[str] = REPRESENTATIVES) -> list[Any]:
    """Return two parameters of a test that reads many platforms: names of some for `make test`, and those of all."""
    return representatives_and_every(platforms(), representatives)


@cache
def kubernetes_platforms() -> dict[str, Platform]:
    """Return those of the platforms that have Kubernetes, by name."""
    return {name: each for name, each in platforms().items() if each.orchestrator.is_kubernetes}


def write_shapes(directory: Path) -> list[Path]:
    """Write the shapes as platform files into the directory and return the files."""
    text = SHAPES_FILE.read_text(encoding="utf-8").replace("CHECKOUT", str(ROOT))
    shapes: dict[str, dict[str, Any]] = yaml.safe_load(text)
    files = []
    for name, shape in shapes.items():
        file = directory / f"{name}.yaml"
        document = with_people({"name": name, **IN_ONE_REGION, **shape})
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
        if "packages" in document.get("image", {}):
            _lock_packages(document, file)
        files.append(file)
    return files


def _lock_packages(document: dict[str, Any], file: Path) -> None:
    """Write the lock of a shape's Python packages, as `trainway image lock` does, with a checksum of no file."""
    platform, versions = Platform.model_validate(document), load_versions()
    requested = platform.image.packages.pip
    pinned = "".join(f"{each} \\\n    --hash=sha256:{'0' * 64}\n" for each in requested)
    head = header(file, requested, beside(platform, versions), lists_hash(platform, versions))
    package_lock_file(file).write_text(head + pinned, encoding="utf-8")
