"""Every example, synthesized once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.synthesis import EXAMPLES, Template, make_app, templates


@pytest.fixture(scope="session")
def assemblies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the directories that `synthesized` writes to, by example."""
    return {file.stem: tmp_path_factory.mktemp(file.stem) for file in EXAMPLES}


@pytest.fixture(scope="session")
def synthesized(assemblies: dict[str, Path]) -> dict[str, dict[str, Template]]:
    """Templates by example (`eks-p5`, …) and role (`network`, …)."""
    return {file.stem: templates(make_app(file, assemblies[file.stem])) for file in EXAMPLES}


@pytest.fixture(params=EXAMPLES, ids=lambda file: file.stem)
def example(request: pytest.FixtureRequest) -> Path:
    """Each example in turn."""
    return Path(request.param)
