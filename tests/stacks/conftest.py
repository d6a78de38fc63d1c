"""The examples, each synthesized when a test reads it. `make test` tries one platform of each orchestrator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.representatives import PLATFORMS
from tests.stacks.by_example import FILES, ByExample, Synthesized
from tests.synthesis import assembly_in, templates_of


@pytest.fixture(scope="session")
def assemblies() -> Mapping[str, Path]:
    """Return the directories of the cloud assemblies by example."""
    return ByExample(assembly_in)


@pytest.fixture(scope="session")
def synthesized() -> Synthesized:
    """Return templates by example (`eks-p5`, …) and role (`network`, …)."""
    return ByExample(templates_of)


@pytest.fixture(
    params=[
        pytest.param(file, id=name, marks=() if name in PLATFORMS else pytest.mark.exhaustive)
        for name, file in FILES.items()
    ]
)
def example(request: pytest.FixtureRequest) -> Path:
    """Each example in turn."""
    return Path(request.param)
