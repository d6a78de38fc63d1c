"""The Kubernetes versions that EKS and HyperPod support, and their end dates: kubernetes_versions.yaml."""

from __future__ import annotations

from datetime import date
from functools import cache

from pydantic import BaseModel, ConfigDict

from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.facts.instance import Source


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Support(_Facts):
    """The first day without standard support, and the first day without extended support, in UTC."""

    standard_until: date
    extended_until: date


class EksVersions(_Facts):
    """The versions of EKS, oldest first."""

    versions: dict[str, Support]
    sources: tuple[Source, ...]


class HyperPodVersions(_Facts):
    """The versions of EKS clusters that HyperPod's nodes can join."""

    versions: tuple[str, ...]
    sources: tuple[Source, ...]


class SupportedRange(_Facts):
    """The oldest and the newest version that a tool or chart of the platform supports."""

    oldest: str
    newest: str
    source: str
    read: date


class KubernetesVersions(_Facts):
    """The Kubernetes versions of EKS, HyperPod, and the platform's tools, from kubernetes_versions.yaml."""

    eks: EksVersions
    hyperpod: HyperPodVersions
    parts: dict[str, SupportedRange]

    @property
    def default(self) -> str:
        """Return the newest version that EKS, HyperPod, and all parts support."""
        return next(version for version in reversed(self.of(hyperpod=True)) if self._suits_parts(version))

    def of(self, *, hyperpod: bool) -> tuple[str, ...]:
        """Return the versions of EKS, oldest first; with `hyperpod` those that HyperPod supports, too."""
        return tuple(each for each in self.eks.versions if not hyperpod or each in self.hyperpod.versions)

    def _suits_parts(self, version: str) -> bool:
        return all(numbers(part.oldest) <= numbers(version) <= numbers(part.newest) for part in self.parts.values())


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers, so that versions can be compared: "1.9" before "1.10"."""
    return tuple(int(part) for part in version.split("."))


@cache
def kubernetes_versions() -> KubernetesVersions:
    """Return the facts of kubernetes_versions.yaml, read once."""
    return KubernetesVersions.model_validate(read_facts(FACTS / "kubernetes_versions.yaml"))
