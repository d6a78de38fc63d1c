"""The yard that all files of this folder build in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.builder import builds_images, image_directory
from tests.container.image.yard import Yard, set_up

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Limit the time of each test of this folder, and skip it where no image can be built."""
    for item in items:
        if item.path.parent == FOLDER:
            for mark in builds_images("dpkg-deb", "gcc", "gpg"):
                item.add_marker(mark)


@pytest.fixture(scope="session")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with image_directory() as root, set_up(root, tmp_path_factory.mktemp("site")) as yard:
        yield yard


@pytest.fixture(scope="session")
def built(yard: Yard) -> Yard:
    """The image and its base, with the base as people supply a closed network with it."""
    done = yard.image("closed", yard.arguments["cuda"], STAGE_DATA_FILE=str(yard.root / "data"))
    assert done.returncode == 0, done.stdout + done.stderr
    return yard
