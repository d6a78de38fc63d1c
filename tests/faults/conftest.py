"""The fixtures of training jobs, and those of faults at random moments."""

from typing import Any

import pytest

from tests.faults.moments import drawn
from tests.training.conftest import (
    corpus_directory,
    job,
    launch,
    launch_program,
    s3,
    s3_endpoint,
    torchrun,
    untouched,
)

__all__ = [
    "corpus_directory",
    "drawn",
    "job",
    "launch",
    "launch_program",
    "s3",
    "s3_endpoint",
    "torchrun",
    "untouched",
]


@pytest.fixture(scope="session")
def variant() -> dict[str, Any]:
    """No changes to the preset: its steps last long enough for a fault at a random moment of one."""
    return {}
