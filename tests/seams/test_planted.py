"""Every reader accepts what the project renders, and finds each error that is planted in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.representatives import with_representatives
from tests.seams.seam import Planted, all_seams, identity

EVERY_SEAM = [seam for seams in all_seams().values() for seam in seams]
PLANTED: dict[str, Planted] = {
    f"{seam.artifact}: {planted.error}": planted for seam in EVERY_SEAM for planted in seam.planted
}
# The first error of each seam shows that its reader reads the artifact.
FIRST = {f"{seam.artifact}: {seam.planted[0].error}" for seam in EVERY_SEAM if seam.planted and not seam.exhaustive}
# The errors of an artifact share one reading of the artifact without an error.
SOUND = list({identity(planted.sound): error for error, planted in reversed(PLANTED.items())}.values())


# In `make test` the test file of each seam reads its sound artifacts.
@pytest.mark.exhaustive
@pytest.mark.parametrize("error", SOUND)
def test_the_reader_accepts_the_artifact_without_the_error(error: str, tmp_path: Path) -> None:
    assert not list(PLANTED[error].sound(tmp_path))


@pytest.mark.parametrize("error", with_representatives(PLANTED, FIRST))
def test_the_reader_finds_the_planted_error(error: str, tmp_path: Path) -> None:
    assert list(PLANTED[error].broken(tmp_path)), f"nobody noticed that {error}"
