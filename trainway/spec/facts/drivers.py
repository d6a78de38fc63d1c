"""NVIDIA's driver on AWS's AMIs, and the driver that CUDA requires: drivers.yaml."""

from __future__ import annotations

from datetime import date
from functools import cache

from pydantic import BaseModel, ConfigDict

from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.facts.instance import Source


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CudaDrivers(_Facts):
    """The oldest driver branch by the major version of CUDA."""

    oldest_branches: dict[str, int]
    sources: tuple[Source, ...]


class DriverSince(_Facts):
    """The driver of the releases from a date on."""

    since: date
    driver: str


class EksDrivers(_Facts):
    """The drivers of EKS's accelerated AMIs by Kubernetes version, oldest release first."""

    until: date
    versions: dict[str, tuple[DriverSince, ...]]
    sources: tuple[Source, ...]


class HyperPodDrivers(_Facts):
    """The drivers of HyperPod's AMIs for EKS by major and minor version."""

    versions: dict[str, str]
    sources: tuple[Source, ...]


class DriverFacts(_Facts):
    """Drivers of nodes and of CUDA, from drivers.yaml."""

    cuda: CudaDrivers
    eks: EksDrivers
    hyperpod: HyperPodDrivers


def branch_of(driver: str) -> int:
    """Return the branch of a driver: 580 of `580.95.05`."""
    return int(driver.partition(".")[0])


@cache
def driver_facts() -> DriverFacts:
    """Return the facts of drivers.yaml, read once."""
    return DriverFacts.model_validate(read_facts(FACTS / "drivers.yaml"))
