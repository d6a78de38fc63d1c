"""Code that was changed here is what the job runs there, without a new image."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from emulator import Emulator, running
from trainway.launch.program.program import SYNCED_CODE
from trainway.launch.starting import code
from trainway.launch.starting.code import pack
from trainway.launch.starting.code_files import code_files, code_version
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

ROOT = Path(__file__).parents[2]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    directory = tmp_path / "mine"
    (directory / "package" / "__pycache__").mkdir(parents=True)
    (directory / "package" / "__init__.py").write_text("WHERE = 'synced'\n")
    (directory / "package" / "__pycache__" / "old.pyc").write_text("")
    (directory / "tool").write_text("#!/bin/sh\n")
    (directory / "tool").chmod(0o755)
    return directory


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


def fetched(archive: Path | str, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SYNCED_CODE), str(archive), str(directory)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_equal_code_is_one_archive_whenever_it_was_written(package: Path) -> None:
    first = code.pack(package)
    os.utime(package / "tool", (0, 0))
    assert code.pack(package) == first
    assert hashlib.sha256(first[0]).hexdigest() == first[1]
    (package / "tool").chmod(0o644)
    assert code.pack(package)[1] != first[1]


def test_what_git_ignores_stays_here(package: Path) -> None:
    subprocess.run(["git", "init", "-q", str(package)], check=True)
    plain = code.pack(package)[1]
    (package / "data.bin").write_text("large")
    assert code.pack(package)[1] != plain, "what is not committed yet goes along"
    (package / ".gitignore").write_text("data.bin\n.gitignore\n")
    assert code.pack(package)[1] == plain


def test_synced_code_is_found_before_the_images_own(package: Path, tmp_path: Path) -> None:
    archive, digest = code.pack(package)
    (tmp_path / f"{digest}.tar.gz").write_bytes(archive)
    for _ in range(2):
        done = fetched(tmp_path / f"{digest}.tar.gz", tmp_path / "node")
        assert done.returncode == 0, done.stderr
    directory = Path(done.stdout.strip())
    assert [path.name for path in (tmp_path / "node").iterdir()] == [digest]
    assert os.access(directory / "tool", os.X_OK)
    asked = [sys.executable, "-c", "import package; print(package.WHERE)"]
    assert subprocess.check_output(asked, env={**os.environ, "PYTHONPATH": str(directory)}, text=True) == "synced\n"


def test_an_archive_that_is_absent_is_explained(tmp_path: Path) -> None:
    absent = fetched(tmp_path / "absent.tar.gz", tmp_path / "node")
    assert absent.returncode == 127 and "trainway sync" in absent.stderr
    assert not (tmp_path / "node").exists()


def test_code_goes_through_the_platforms_bucket_once(
    package: Path, tmp_path: Path, hand_off: HandOff, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    s3 = boto3.client("s3", region_name=hand_off.region)
    s3.create_bucket(Bucket=hand_off.bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    s3.put_bucket_versioning(Bucket=hand_off.bucket, VersioningConfiguration={"Status": "Enabled"})
    locations = {code.sync(package, hand_off) for _ in range(2)}
    assert len(locations) == 1
    assert len(s3.list_object_versions(Bucket=hand_off.bucket)["Versions"]) == 1
    done = fetched(locations.pop(), tmp_path / "node")
    assert (Path(done.stdout.strip()) / "package/__init__.py").read_text() == "WHERE = 'synced'\n"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "no file is in it"),
        ({"a.py": 1, "weights.bin": code.MOST_BYTES}, r"more than 200 MiB; the largest: weights\.bin \(200\.0 MiB\)"),
    ],
)
def test_what_is_no_code_is_refused_by_name(files: dict[str, int], why: str, tmp_path: Path) -> None:
    for name, length in files.items():
        with (tmp_path / name).open("wb") as file:
            file.truncate(length)
    with pytest.raises(UsageError, match=why):
        code.pack(tmp_path)
    with pytest.raises(UsageError, match="no such directory"):
        code.pack(tmp_path / "absent")


def test_a_bucket_that_cannot_be_written_to_is_explained(
    package: Path, hand_off: HandOff, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    absent = hand_off.model_copy(update={"bucket": "absent-bucket"})
    with pytest.raises(UsageError, match=r"NoSuchBucket[\s\S]*s3:PutObject on s3://absent-bucket/runs/code"):
        code.sync(package, absent)


@pytest.mark.parametrize("is_repository", [True, False])
def test_a_link_out_of_the_directory_and_logins_stay_here(is_repository: bool, tmp_path: Path) -> None:
    code_directory, home = tmp_path / "code", tmp_path / "home"
    home.mkdir()
    (home / "token").write_text("secret")
    code_directory.mkdir()
    if is_repository:
        subprocess.run(["git", "init", "--quiet", str(code_directory)], check=True)
    for name in ("a.py", "tls.key", "keys/id_ed25519"):
        (code_directory / name).parent.mkdir(exist_ok=True)
        (code_directory / name).write_text(name)
    (code_directory / "inside.py").symlink_to("a.py")
    (code_directory / "outside").symlink_to(home / "token")
    (code_directory / "home").symlink_to(home)
    files = code_files(code_directory)
    assert [path.name for path in files.sent] == ["a.py", "inside.py"]
    assert sorted(path.name for path in files.withheld) == ["id_ed25519", "outside", "tls.key"]
    assert "not sent: keys/id_ed25519, outside, tls.key" in str(files)


@pytest.mark.parametrize("is_repository", [True, False])
def test_trainwayignore_leaves_files_out_and_keys_are_never_sent(is_repository: bool, tmp_path: Path) -> None:
    if is_repository:
        subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for name in ("a.py", "run.sh", "data/x.bin", "data/keep.txt", "sub/deploy.pem", ".env", "sub/.env"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".trainwayignore").write_text("# large\n/data/*\n!/data/keep.txt\n")
    if is_repository:
        subprocess.run(["git", "-C", str(tmp_path), "add", "--all"], check=True)
    files = code_files(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in files.sent] == ["a.py", "data/keep.txt", "run.sh"]
    said = str(files)
    assert said.startswith("code: 3 files, 0.0 KiB; the largest: data/keep.txt (0.0 KiB)")
    assert "not sent: " in said and "sub/deploy.pem" in said
    assert pack(tmp_path)[1] == pack(tmp_path)[1]


def test_the_commit_and_whether_it_is_all_are_recorded(tmp_path: Path) -> None:
    assert code_version(tmp_path) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "a.py").write_text("1")
    for words in (["init", "--quiet"], ["add", "a.py"], ["commit", "--quiet", "--message=a"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert code_version(tmp_path) == {"commit": head, "dirty": False}
    (tmp_path / "a.py").write_text("2")
    assert code_version(tmp_path) == {"commit": head, "dirty": True}
