"""The registries of AWS's Deep Learning Containers, from deep_learning_containers.yaml."""

from __future__ import annotations

from functools import cache
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.facts.instance import Source

FILE: Final = FACTS / "deep_learning_containers.yaml"


class DeepLearningContainers(BaseModel):
    """The accounts that own AWS's Deep Learning Containers, by Region."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accounts: dict[str, str]
    sources: tuple[Source, ...] = Field(min_length=1)


@cache
def deep_learning_containers() -> DeepLearningContainers:
    """Return the facts of deep_learning_containers.yaml, read once."""
    return DeepLearningContainers.model_validate(read_facts(FILE))
