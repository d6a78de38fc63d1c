"""How many workers run the tests, and which files one worker runs.

A folder with one expensive fixture is for one worker, which then sets the fixture up once.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

FOLDERS = ("tests/container/image/", "tests/seams/", "tests/training/hugging_face/")


def workers(processors: int) -> int:
    """Return two workers for each processor.

    Tests of Slurm, of pods, and of nodes wait for daemons. With three workers, `make test` used 72 % of two processors,
    and with four, 93 % (2026-11-24).
    """
    return 2 * processors


class TogetherScheduling(LoadFileScheduling):  # type: ignore[misc] # it has no types
    """pytest-xdist's `--dist loadfile`, which takes each folder of FOLDERS for one file."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((folder for folder in FOLDERS if file.startswith(folder)), file)
