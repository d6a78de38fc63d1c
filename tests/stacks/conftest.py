"""Every example, synthesized once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.synthesis import EXAMPLES, Template, assembly_in, templates_of


@pytest.fixture(scope="session")
def assemblies() -> dict[str, Path]:
    """Return the directories of the cloud assemblies by example."""
    return {file.stem: assembly_in(file) for file in EXAMPLES}


@pytest.fixture(scope="session")
def synthesized() -> dict[str, dict[str, Template]]:
    """Templates by example (`eks-p5`, …) and role (`network`, …)."""
    return {file.stem: templates_of(file) for file in EXAMPLES}


@pytest.fixture(params=EXAMPLES, ids=lambda file: file.stem)
def example(request: pytest.FixtureRequest) -> Path:
    """Each example in turn."""
    return Path(request.param)
