"""What nodes of Slurm install beside their image, for jobs in containers: delivery/node_packages.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trainway.spec.facts import read_facts

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PACKAGES_FILE: Final = REPOSITORY / "delivery" / "node_packages.yaml"
# What the checkout itself brings.
OWN_PACKAGES: Final = REPOSITORY / "lifecycle_scripts" / "packages"
# What the listed packages are for, in the catalogue's words.
ARCHITECTURE: Final = "x86_64"


def unchecked_files(packages: Path = PACKAGES_FILE, own: Path = OWN_PACKAGES) -> tuple[str, ...]:
    """The addresses of files that are not fetched: no checksum of them is known, and the checkout has none itself."""
    files = [file for package in read_facts(packages)["packages"] for file in package["files"]]
    return tuple(
        file["url"] for file in files if not file["sha256"] and not (own / file["url"].rpartition("/")[2]).is_file()
    )
