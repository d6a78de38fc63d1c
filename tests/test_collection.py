"""The collection of the tests imports no large package, and needs no plugin of pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.large_packages import IMPORTED

ROOT = Path(__file__).parents[1]
# Collects tests, and prints who imported which large package first, how many tests there are, and the CPU seconds.
COLLECT = """
import json, sys, time
import pytest

class Report:
    tests = 0

    def pytest_collection_finish(self, session):
        from tests.large_packages import IMPORTED
        self.imported = session.config.stash[IMPORTED]
        self.tests = len(session.items)

report = Report()
status = pytest.main(sys.argv[1:], plugins=[report])
print(json.dumps({"imported": report.imported, "tests": report.tests, "seconds": time.process_time()}))
sys.exit(status)
"""


TO_DO = "import these in the tests, the fixtures, or the helpers that use them"


def test_the_collection_of_this_process_imported_no_large_package(request: pytest.FixtureRequest) -> None:
    """In a run of some files, these are the files that were collected. A worker of `make test` collects all."""
    assert request.config.stash[IMPORTED] == {}, TO_DO


@pytest.mark.exhaustive
def test_the_collection_imports_no_large_package() -> None:
    arguments = ("--collect-only", "-qq", "-p", "no:cacheprovider")
    done = subprocess.run([sys.executable, "-c", COLLECT, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{found['tests']} tests are collected in {found['seconds']:.1f} s of a processor")
    assert found["imported"] == {}, TO_DO
    assert found["tests"] > 8000


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="as usual", marks=pytest.mark.exhaustive),
        pytest.param(("-p", "no:xdist"), id="without pytest-xdist"),
    ],
)
def test_a_file_is_collected_from_another_folder(options: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", *options, __file__]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_collection.py: 4" in done.stdout
