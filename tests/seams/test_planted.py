"""Every reader accepts what the project renders, and finds each error that is planted in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seams.seam import Planted, all_seams

PLANTED = {
    f"{seam.artefact}: {planted.error}": planted
    for seams in all_seams().values()
    for seam in seams
    for planted in seam.planted
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_the_reader_finds_the_planted_error(planted: Planted, tmp_path: Path) -> None:
    sound, broken = tmp_path / "sound", tmp_path / "broken"
    sound.mkdir()
    broken.mkdir()
    assert not list(planted.sound(sound))
    assert list(planted.broken(broken)), f"nobody noticed that {planted.error}"
