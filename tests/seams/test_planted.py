"""Every reader accepts what the project renders, and finds each error that is planted in it."""

from __future__ import annotations

from collections.abc import Hashable
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
FOUND_SOUND: set[Hashable] = set()


@pytest.mark.parametrize("error", with_representatives(PLANTED, FIRST))
def test_the_reader_finds_the_planted_error(error: str, tmp_path: Path) -> None:
    planted = PLANTED[error]
    sound, broken = tmp_path / "sound", tmp_path / "broken"
    sound.mkdir()
    broken.mkdir()
    # The errors of an artifact share its sound reading, which is read once.
    if (same := identity(planted.sound)) not in FOUND_SOUND:
        assert not list(planted.sound(sound))
        FOUND_SOUND.add(same)
    assert list(planted.broken(broken)), f"nobody noticed that {planted.error}"
