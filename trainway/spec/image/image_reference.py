"""The parts of an image's name: the registry, the repository, and what ECR's names say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_ECR: Final = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?")


@dataclass(frozen=True)
class EcrRepository:
    """A repository in ECR: the account and Region of its registry, and its name."""

    account: str
    region: str
    name: str


def registry_of(image: str) -> str:
    """Return the registry of an image, which is Docker Hub if the name has none.

    https://github.com/distribution/reference/blob/main/normalize.go (read 2026-11-23)
    """
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def ecr_repository_of(image: str) -> EcrRepository | None:
    """Return the ECR repository of an image, or None if the image is in another registry."""
    found = _ECR.fullmatch(registry_of(image))
    if not found:
        return None
    name = image.partition("/")[2].partition("@")[0].partition(":")[0]
    return EcrRepository(found["account"], found["region"], name)
