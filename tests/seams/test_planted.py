"""Every reader accepts what the project renders, and finds each error that is planted in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.representatives import with_representatives
from tests.seams.seam import Planted, all_seams

EVERY_SEAM = [seam for seams in all_seams().values() for seam in seams]
PLANTED: dict[str, Planted] = {
    f"{seam.artifact}: {planted.error}": planted for seam in EVERY_SEAM for planted in seam.planted
}
# The first error of each seam shows that its reader reads the artifact.
FIRST = {f"{seam.artifact}: {seam.planted[0].error}" for seam in EVERY_SEAM if seam.planted}


@pytest.mark.parametrize("error", with_representatives(PLANTED, FIRST))
def test_the_reader_finds_the_planted_error(error: str, tmp_path: Path) -> None:
    planted = PLANTED[error]
    sound, broken = tmp_path / "sound", tmp_path / "broken"
    sound.mkdir()
    broken.mkdir()
    assert not list(planted.sound(sound))
    assert list(planted.broken(broken)), f"nobody noticed that {planted.error}"
