"""Selects the tests of a shard or of a change, orders files, and says which files one worker runs.

`--shard K/N` selects one of N parts of about equal CPU seconds. `--changed REV` selects the exhaustive tests of the
folders with files that differ from the Git revision REV.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

import pytest

from tests.durations import ROOT, kept

# A folder with one expensive fixture is for one worker, which then sets the fixture up once.
TOGETHER = ("tests/container/image/", "tests/seams/", "tests/training/hugging_face/")
# In `make test` one worker runs also each of these groups. Its files share a process that has imported PyTorch and
# forks the ranks of jobs, or the CDK's process, which is slow until Node has compiled the CDK. In `make test-all` each
# group is too large for one worker.
GROUPS_OF_TEST = {
    "tests/training/": "jobs",
    "tests/faults/": "jobs",
    "tests/stacks/": "templates",
    "tests/changes/": "templates",
}
# Files without kept CPU seconds are new, or need less than one second.
UNKNOWN_SECONDS = 0.5
# Most tests of these folders, and of files beside them, read the examples.
EXAMPLE_FOLDERS = ("tests", "tests/changes", "tests/diff", "tests/seams", "tests/spec", "tests/stacks")


def add_options(parser: pytest.Parser) -> None:
    """Add `--shard` and `--changed` to pytest's options."""
    group = parser.getgroup("selection")
    group.addoption("--shard", metavar="K/N", help="run part K of N, for example 1/8. Default: all tests")
    group.addoption("--changed", metavar="REV", help="run the exhaustive tests of folders that differ from REV")


def check_options(config: pytest.Config) -> None:
    """Raise pytest.UsageError for a wrong shard or revision once, before each worker would."""
    if shard := config.getoption("--shard"):
        parsed_shard(shard)
    if revision := config.getoption("--changed"):
        changed_files(revision)


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests, and deselect those that the options do not ask for.

    Raises pytest.UsageError if the shard is not K/N with 1 ≤ K ≤ N, or if Git does not know the revision.
    """
    order = order_of({item_file(item) for item in items}, ordered_suite(config))
    items.sort(key=lambda item: order(item_file(item)))
    chosen = list(items)
    if shard := config.getoption("--shard"):
        files = shard_files({item_file(item) for item in items}, *parsed_shard(shard))
        chosen = [item for item in chosen if item_file(item) in files]
    if revision := config.getoption("--changed"):
        folders = folders_of_tests(changed_files(revision))
        chosen = [
            item for item in chosen if item.get_closest_marker("exhaustive") and is_below(item_file(item), folders)
        ]
    if len(chosen) < len(items):
        kept_ids = {item.nodeid for item in chosen}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept_ids])
        items[:] = chosen


def item_file(item: pytest.Item) -> str:
    """Return the path of a test's file below the repository's root."""
    return item.nodeid.partition("::")[0]


def ordered_suite(config: pytest.Config) -> str | None:
    """Return `test` if the run has the tests of `make test` or some of them, and None if it may have others.

    The options are the same in the process that divides the tests and in its workers.
    """
    return "test" if config.getoption("markexpr") == "not exhaustive" else None


def order_of(files: Iterable[str], suite: str | None) -> Callable[[str], tuple[float, str, float, str]]:
    """Return the key by which files are sorted: the largest scopes first, and in a scope the largest files."""
    weights: dict[str, float] = defaultdict(float)
    for file in files:
        weights[scope_of(file, suite)] += seconds_of(file, suite)

    def key(file: str) -> tuple[float, str, float, str]:
        scope = scope_of(file, suite)
        return -weights[scope], scope, -seconds_of(file, suite), file

    return key


def seconds_of(file: str, suite: str | None = None) -> float:
    """Return the kept CPU seconds of a file in a suite, by which files are ordered and divided. Default: the most."""
    suites = kept()
    known = [suites[each][file] for each in suites if file in suites[each] and suite in (None, each)]
    return max(known, default=UNKNOWN_SECONDS)


def scope_of(file: str, suite: str | None = None) -> str:
    """Return what one worker runs as a whole: a group, the folder of TOGETHER that has the file, or else the file."""
    groups = GROUPS_OF_TEST if suite == "test" else {}
    folders = groups | {folder: folder for folder in TOGETHER if not folder.startswith(tuple(groups))}
    return next((folders[folder] for folder in folders if file.startswith(folder)), file)


def parsed_shard(text: str) -> tuple[int, int]:
    """Return K and N of `K/N`. Raises pytest.UsageError."""
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise pytest.UsageError(f"--shard {text}: write K/N with 1 ≤ K ≤ N, for example --shard 1/8")
    return int(part), int(parts)


def shard_files(files: Iterable[str], part: int, parts: int) -> set[str]:
    """Return the files of part `part` of `parts`. The largest scopes are given out first, each to the lightest part."""
    scopes: dict[str, list[str]] = defaultdict(list)
    for file in sorted(files):
        scopes[scope_of(file)].append(file)
    weights = {scope: sum(map(seconds_of, each)) for scope, each in scopes.items()}
    loads = [0.0] * parts
    chosen: set[str] = set()
    for scope in sorted(scopes, key=lambda scope: (-weights[scope], scope)):
        lightest = loads.index(min(loads))
        loads[lightest] += weights[scope]
        if lightest == part - 1:
            chosen.update(scopes[scope])
    return chosen


def changed_files(revision: str) -> list[str]:
    """Return the files that differ from a revision, with files that Git does not track. Raises pytest.UsageError."""
    listed: list[str] = []
    for command in (
        ("diff", "--name-only", "--no-renames", revision, "--"),
        ("ls-files", "--others", "--exclude-standard"),
    ):
        asked = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        if asked.returncode:
            raise pytest.UsageError(f"--changed {revision}: {asked.stderr.strip()}")
        listed += asked.stdout.splitlines()
    return listed


def folders_of_tests(files: Iterable[str], root: Path = ROOT) -> set[str]:
    """Return the folders of tests that test some files, by path below the repository's root.

    `tests/` mirrors the tree, and the tests of `trainway/x` are in `tests/x`. The nearest folder above counts for a
    file without a folder of its own.
    """
    found: set[str] = set()
    for file in files:
        path = PurePosixPath(file)
        if path.parts[0] == "examples":
            found.update(EXAMPLE_FOLDERS)
            continue
        mirrored = path.parts[1:-1] if path.parts[0] in ("trainway", "tests") else path.parts[:-1]
        while not (root / "tests" / PurePosixPath(*mirrored)).is_dir():
            mirrored = mirrored[:-1]
        found.add(str(PurePosixPath("tests", *mirrored)))
    return found


def is_below(file: str, folders: Iterable[str]) -> bool:
    """Whether a test file is in one of some folders. The folder `tests` has the files beside it alone."""
    return any(
        PurePosixPath(file).parent == PurePosixPath(folder) if folder == "tests" else file.startswith(f"{folder}/")
        for folder in folders
    )
