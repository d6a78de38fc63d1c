"""The keys of slurm.conf that slurmctld of HyperPod's image takes: slurm_settings.yaml."""

from __future__ import annotations

from functools import cache

from pydantic import BaseModel, ConfigDict

from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.facts.instance import Source


class SlurmSettingsFacts(BaseModel):
    """The keys of slurm.conf in a release of Slurm."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    release: str
    keys: tuple[str, ...]
    numbers: tuple[str, ...]
    sources: tuple[Source, ...]


@cache
def slurm_settings() -> SlurmSettingsFacts:
    """Return the keys, read once. Slurm compares them without regard to case."""
    return SlurmSettingsFacts.model_validate(read_facts(FACTS / "slurm_settings.yaml"))
