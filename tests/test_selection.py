"""Shards divide the tests, each test is in one of them, and a change selects the tests of its folders."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import selection
from tests.durations import ROOT
from tests.selection import changed_files, folders_of_tests, is_below, parsed_shard, scope_of, shard_files

FILES = [str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py")]


@pytest.mark.parametrize("parts", [1, 2, 8])
def test_each_file_is_in_one_shard(parts: int) -> None:
    shards = [shard_files(FILES, part + 1, parts) for part in range(parts)]
    assert sorted(file for shard in shards for file in shard) == sorted(FILES)


def test_shards_have_about_equal_cpu_seconds() -> None:
    loads = [sum(map(selection.seconds_of, shard_files(FILES, part + 1, 4))) for part in range(4)]
    largest = max(
        sum(selection.seconds_of(file) for file in FILES if scope_of(file) == scope) for scope in map(scope_of, FILES)
    )
    assert max(loads) - min(loads) <= largest


def test_a_folder_with_an_expensive_fixture_is_in_one_shard() -> None:
    for folder in selection.TOGETHER:
        inside = {file for file in FILES if file.startswith(folder)}
        assert len(inside) > 1
        assert sum(bool(shard_files(FILES, part + 1, 8) & inside) for part in range(8)) == 1


def test_make_test_gives_a_group_to_one_worker_and_starts_with_the_largest_files() -> None:
    groups = selection.GROUPS_OF_TEST
    scopes = {file: scope_of(file, "test") for file in FILES}
    assert {file for file, scope in scopes.items() if scope in groups.values()} == {
        file for file in FILES if file.startswith(tuple(groups))
    }
    found = [scopes[file] for file in sorted(FILES, key=selection.order_of(FILES, "test"))]
    # The files of a scope follow each other, and no scope is after a lighter one.
    starts = [scope for before, scope in zip(["", *found], found, strict=False) if before != scope]
    assert len(starts) == len(set(found))
    weights = [sum(selection.seconds_of(file, "test") for file in FILES if scopes[file] == scope) for scope in starts]
    assert weights == sorted(weights, reverse=True)


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/", "a/b", "-1/4", "1/0", "1/4/2"])
def test_a_shard_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="for example --shard 1/8"):
        parsed_shard(text)


@pytest.mark.parametrize(
    ("files", "folders"),
    [
        (["trainway/launch/slurm/watch.py"], {"tests/launch/slurm"}),
        (["trainway/launch/local/run.py"], {"tests/launch/local"}),
        (["trainway/price/nowhere/deeper.py"], {"tests/price"}),
        (["stacks/constructs/iam/roles.py"], {"tests/stacks"}),
        (["training/optim/muon.py", "container/Dockerfile"], {"tests/training", "tests/container"}),
        (["tests/delivery/test_mirror.py"], {"tests/delivery"}),
        (["README.md", "tests/conftest.py", "trainway/plan_text.py"], {"tests"}),
        (["examples/eks-p5.yaml"], set(selection.EXAMPLE_FOLDERS)),
        ([], set()),
    ],
)
def test_a_change_selects_the_folders_that_mirror_its_files(
    files: Iterable[str], folders: set[str], tmp_path: Path
) -> None:
    for folder in ("launch/slurm", "launch/local", "price", "stacks", "training", "container", "delivery"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
    assert folders_of_tests(files, tmp_path) == folders


def test_files_beside_the_folders_of_tests_are_selected_alone() -> None:
    assert is_below("tests/test_readme.py", {"tests"})
    assert not is_below("tests/spec/test_rules.py", {"tests"})
    assert is_below("tests/spec/test_rules.py", {"tests/spec"})
    assert not is_below("tests/specification/test_rules.py", {"tests/spec"})


def test_changed_files_are_those_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for name in ("kept.py", "edited.py", "moved.py"):
        (tmp_path / name).write_text(f"{name}\n")
    git("add", "--all")
    git("commit", "--message", "Begin")
    (tmp_path / "edited.py").write_text("other\n")
    git("mv", "moved.py", "there.py")
    (tmp_path / "new.py").touch()
    monkeypatch.setattr(selection, "ROOT", tmp_path)
    assert sorted(changed_files("HEAD")) == ["edited.py", "moved.py", "new.py", "there.py"]
    with pytest.raises(pytest.UsageError, match=r"--changed nowhere: .*nowhere"):
        changed_files("nowhere")


def pytest_in_a_process(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "tests/test_selection.py"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_wrong_shard_is_told_once_and_starts_no_worker() -> None:
    done = pytest_in_a_process("--numprocesses=2", "--shard=9/8")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.count("write K/N") == 1 and "gw0" not in done.stdout + done.stderr


def test_a_change_without_exhaustive_tests_passes() -> None:
    done = pytest_in_a_process("--changed=HEAD")
    assert "deselected" in done.stdout and done.returncode == 0, done.stdout + done.stderr
