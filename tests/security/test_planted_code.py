"""Threat: a user of a shared node leaves code where the run of another user imports its own."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainway.launch.node import private_code
from trainway.launch.node.exit_statuses import NOT_FOUND
from trainway.launch.program.program import STARTER, SYNCED_CODE
from trainway.launch.starting.code import pack

ROOT = Path(__file__).parents[2]
MALLORY = 2001
"""The numeric ID of the user who plants. The tests' own user starts the run."""

as_another_user = pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user, which requires root")


@pytest.fixture
def tmp() -> Iterator[Path]:
    """A directory that every user can write to, as /tmp of a node."""
    directory = Path(tempfile.mkdtemp(dir="/var/tmp"))
    directory.chmod(0o1777)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The archive of a run's code, which has one module."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "mine.py").write_text("print('the code of the run')\n")
    content, digest = pack(source)
    path = tmp_path / f"{digest}.tar.gz"
    path.write_bytes(content)
    return path


def digest(archive: Path) -> str:
    return archive.name.removesuffix(".tar.gz")


def mallory(script: str, *arguments: object) -> None:
    """Run a shell script as the other user."""
    done = subprocess.run(["sh", "-euc", script, "sh", *map(str, arguments)], user=MALLORY, group=MALLORY, check=False)
    assert done.returncode == 0


def fetched(archive: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    """Fetch the code as a run of the training job does."""
    command = [sys.executable, str(SYNCED_CODE), str(archive), str(directory)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=300)


PLANT = 'mkdir -p "$1/$2" && echo "print(\'planted\')" >"$1/$2/mine.py" && chmod -R 777 "$1"'


@as_another_user
def test_a_directory_of_another_user_is_refused_by_a_run_of_the_training_image(tmp: Path, archive: Path) -> None:
    directory = tmp / "trainway-code-0"
    mallory(PLANT, directory, digest(archive))
    done = fetched(archive, directory)
    assert (done.returncode, done.stdout) == (NOT_FOUND, "")
    assert (
        f"{directory}: it belongs to the user with the ID {MALLORY}" in done.stderr and "Traceback" not in done.stderr
    )


@as_another_user
def test_a_link_to_a_directory_of_another_user_is_refused(tmp: Path, archive: Path) -> None:
    mallory(PLANT, tmp / "planted", digest(archive))
    mallory('ln -s "$1" "$2"', tmp / "planted", tmp / "trainway-code-0")
    done = fetched(archive, tmp / "trainway-code-0")
    assert (done.returncode, done.stdout) == (NOT_FOUND, "")
    assert "it is not a directory" in done.stderr


def started(archive: Path, tmp: Path) -> subprocess.CompletedProcess[str]:
    """Start a program with the code, on a node whose /tmp is `tmp`, from the files that the launcher sends."""
    job = tmp / "job"
    job.mkdir()
    for file in STARTER.parent.glob("*.py"):
        shutil.copy(file, job)
    shutil.copy(archive, job)
    (tmp / "run").mkdir()
    # That of the virtual environment is in the checkout, which may be below the real /tmp.
    python = os.path.realpath(sys.executable)
    command = [python, "/tmp/job/start_program.py", f"--code=/tmp/job/{archive.name}", "--"]
    program = [python, "mine.py"]
    node = ["unshare", "--mount", "--propagation=private", "sh", "-euc", 'mount --bind "$0" /tmp; exec "$@"', str(tmp)]
    environment = {"PATH": os.environ["PATH"], "TRAINWAY_RUN": "/tmp/run", "TRAINWAY_OUTPUT": "/tmp/run/outputs"}
    return subprocess.run(
        [*node, *command, *program], env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@as_another_user
def test_a_directory_of_another_user_is_refused_by_the_starter_of_programs(tmp: Path, archive: Path) -> None:
    mallory(PLANT, tmp / "trainway-code-0", digest(archive))
    done = started(archive, tmp)
    assert done.returncode == NOT_FOUND, done.stderr
    assert f"it belongs to the user with the ID {MALLORY}" in done.stderr
    assert "planted" not in done.stdout


@as_another_user
def test_the_starter_unpacks_code_that_no_other_user_can_read(tmp: Path, archive: Path) -> None:
    done = started(archive, tmp)
    assert (done.returncode, done.stdout) == (0, "the code of the run\n"), done.stderr
    directory = tmp / "trainway-code-0"
    for attempt in ('cat "$1/$2/mine.py"', 'echo >"$1/$2/torch.py"', 'mv "$1" "$1.old"'):
        with pytest.raises(AssertionError):
            mallory(attempt, directory, digest(archive))


def test_a_directory_that_others_can_write_to_is_refused(tmp: Path, archive: Path) -> None:
    directory = tmp / "code"
    directory.mkdir()
    directory.chmod(0o775)
    done = fetched(archive, directory)
    assert (done.returncode, done.stdout) == (NOT_FOUND, "")
    assert "other users can write to it" in done.stderr


@pytest.mark.parametrize(
    "change",
    [
        'echo "print(1)" >"$1/mine.py"',
        'rm "$1/mine.py"',
        'cp "$1/mine.py" "$1/other.py" && ln -sf other.py "$1/mine.py"',
        'chmod +x "$1/mine.py"',
        'rm "$1/mine.py" && mkdir "$1/mine.py"',
        'mv "$1" "$1.elsewhere" && ln -s "$1.elsewhere" "$1"',
    ],
)
def test_files_that_have_changed_since_an_earlier_start_are_replaced(change: str, tmp: Path, archive: Path) -> None:
    directory = tmp / "code"
    first = Path(fetched(archive, directory).stdout.strip())
    subprocess.run(["sh", "-euc", change, "sh", str(first)], check=True)
    second = Path(fetched(archive, directory).stdout.strip())
    assert first == second and not second.is_symlink()
    module = second / "mine.py"
    assert module.read_text() == "print('the code of the run')\n"
    assert not module.is_symlink() and not os.access(module, os.X_OK)


def test_files_that_a_program_has_added_to_its_code_stay(tmp: Path, archive: Path) -> None:
    first = Path(fetched(archive, tmp / "code").stdout.strip())
    (first / "notes").write_text("of the program")
    assert (Path(fetched(archive, tmp / "code").stdout.strip()) / "notes").exists()


def test_an_archive_that_was_changed_is_refused(tmp: Path, archive: Path) -> None:
    archive.write_bytes(archive.read_bytes() + b"\0")
    done = fetched(archive, tmp / "node")
    assert done.returncode == NOT_FOUND and "another SHA-256" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp / "node").exists()


def test_a_name_that_is_no_digest_names_no_directory(tmp: Path, archive: Path) -> None:
    (tmp / "code").mkdir(mode=0o700)
    for name in ("..tar.gz", "...tar.gz"):
        (tmp / name).write_bytes(archive.read_bytes())
        done = fetched(tmp / name, tmp / "code")
        assert (done.returncode, done.stdout) == (NOT_FOUND, "")
        assert "another SHA-256 than its name" in done.stderr


def test_code_that_does_not_fit_is_one_sentence(tmp: Path, archive: Path) -> None:
    """A file system of 16 KiB is full."""
    if os.geteuid():
        pytest.skip("mounts a file system, which requires root")
    full = ["unshare", "--mount", "--propagation=private", "sh", "-euc"]
    script = 'mount -t tmpfs -o size=16k,mode=755 none "$0"; head -c 16384 /dev/zero >"$0/rest" || true; exec "$@"'
    command = [sys.executable, str(SYNCED_CODE), str(archive), str(tmp / "code")]
    done = subprocess.run([*full, script, str(tmp), *command], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr and "Traceback" not in done.stderr


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def unpacked(members: list[tarfile.TarInfo], directory: Path) -> Path:
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w:gz") as tar:
        for member in members:
            tar.addfile(member)
    content = tarred.getvalue()
    return private_code.unpack(content, hashlib.sha256(content).hexdigest(), directory)


UP, ABSOLUTE = tarfile.TarInfo("../../planted"), tarfile.TarInfo("/var/tmp/planted")


@pytest.mark.parametrize("without_filters", [False, True])
@pytest.mark.parametrize("members", [[UP], [ABSOLUTE], [link("out", "../.."), tarfile.TarInfo("out/planted")]])
def test_an_archive_that_leads_out_of_its_directory_is_not_unpacked(
    members: list[tarfile.TarInfo], without_filters: bool, tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python before 3.11.4 has no filters for archives."""
    if without_filters:
        monkeypatch.setattr(private_code, "FILTER", None)
    with pytest.raises(private_code.UnsafeCodeDirectory, match=r"cannot be unpacked into .*out.*Launch the run again"):
        unpacked(members, tmp / "code")
    assert not list(tmp.rglob("planted")) and not Path("/var/tmp/planted").exists()


def test_code_with_links_inside_is_unpacked(tmp: Path) -> None:
    code = unpacked([tarfile.TarInfo("module.py"), link("same.py", "module.py")], tmp / "code")
    assert (code / "same.py").resolve() == (code / "module.py").resolve()
