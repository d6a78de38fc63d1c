"""Install the locked Python packages of a run on a node, and print the directory that has them.

    python3 install_packages.py packages.txt [--shared DIRECTORY] [--here DIRECTORY]

The launcher sends this file to the node beside the lock. It requires Python 3.9 with pip, and nothing else.

The packages are those of a directory for PYTHONPATH, which come before the packages of this Python. One node of all
runs with the same lock downloads them, and leaves one archive in the shared directory. Every other node unpacks this
archive to its own disk, because importing thousands of small files from a shared file system is slow.

The exit status is 0, 127 if trying again cannot help, or 1. After a failure, the reason is printed in place of the
directory.
"""

import argparse
import fcntl
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TextIO

KEPT_ARCHIVES = 10
FAILED, FAILED_FOR_GOOD = 1, 127
_SECONDS_BETWEEN_LOOKS = 0.5
# What pip writes when it does not reach its index, before it says that there is no such package.
_UNREACHABLE = re.compile(r"Retrying \(|Could not fetch URL|Connection |Temporary failure|timed out", re.IGNORECASE)


class CannotInstall(Exception):
    """The packages cannot be installed, and with which exit status."""

    def __init__(self, reason: str, status: int = FAILED_FOR_GOOD) -> None:
        super().__init__(reason)
        self.status = status


def main() -> int:
    """Print the directory of the packages, or why there is none, and return the exit status."""
    parser = argparse.ArgumentParser(description="Install the locked Python packages of a run on a node.")
    parser.add_argument("lock", type=Path, help="list of requirements with versions and checksums")
    parser.add_argument("--shared", type=Path, help="directory of a file system that all nodes share")
    parser.add_argument("--here", type=Path, help="directory on this node. Default: one of this user's in /tmp")
    asked = parser.parse_args()
    here = asked.here or Path(tempfile.gettempdir()) / f"trainway-packages-{os.getuid()}"
    try:
        print(directory_with(asked.lock, here, asked.shared))
    except CannotInstall as problem:
        print(problem)
        return problem.status
    except OSError as problem:
        print(f"the packages of the run cannot be installed: {problem}")
        return FAILED_FOR_GOOD
    return 0


def directory_with(lock: Path, here: Path, shared: "Path | None") -> Path:
    """Return the directory on this node that has the packages of a lock, after installing them if there is none.

    Raises CannotInstall.
    """
    key = key_of(lock)
    found = here / key
    if found.is_dir():
        return found
    make_own(here)
    archives = None if shared is None else shared_directory(shared)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=here))
    try:
        if archives is None:
            install(lock, unfinished)
        else:
            share(lock, unfinished, archives, key)
        try:
            unfinished.rename(found)
        except OSError:
            # Another run on this node was faster.
            if not found.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return found


def key_of(lock: Path) -> str:
    """Return the name of the packages of a lock for this Python: other content has another name."""
    digest = hashlib.sha256(lock.read_bytes())
    # A console script names its interpreter, and what pip compiles from sources belongs to a PyTorch.
    for fact in (sys.executable, sys.version, platform.machine(), _version_of("torch")):
        digest.update(f"\0{fact}".encode())
    return digest.hexdigest()[:32]


def shared_directory(shared: Path) -> "Path | None":
    """Return this user's own directory below a shared one, or None if it cannot be used. Create both.

    A user has an own directory, because whoever can write it decides what the reader runs.
    """
    own = shared / str(os.getuid())
    try:
        try:
            shared.mkdir()
            shared.chmod(0o1777)
        except FileExistsError:
            pass
        make_own(own)
        if not os.access(own, os.W_OK):
            raise PermissionError(f"{own} is not writable")
    except (OSError, CannotInstall) as problem:
        print(f"trainway: packages are not shared between nodes: {problem}", file=sys.stderr, flush=True)
        return None
    return own


def make_own(directory: Path) -> None:
    """Create a directory that only this user can write. Raises CannotInstall for one of somebody else's."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise CannotInstall(f"{directory} belongs to the user {directory.stat().st_uid}, and not to {os.getuid()}")


def share(lock: Path, directory: Path, archives: Path, key: str) -> None:
    """Unpack the shared archive of the packages into a directory. Make the archive if no node has made it."""
    archive = archives / f"{key}.tar"
    with (archives / f"{key}.lock").open("a") as writer:
        waited = False
        while not archive.exists() and not _locked(writer):
            if not waited:
                print("trainway: another node installs the packages", file=sys.stderr, flush=True)
            waited = True
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        if not archive.exists():
            install(lock, directory)
            unfinished = archives / f".{key}.{socket.gethostname()}.{os.getpid()}"
            try:
                with tarfile.open(unfinished, "w") as tar:
                    tar.add(directory, arcname=".")
                unfinished.replace(archive)
            finally:
                unfinished.unlink(missing_ok=True)
            forget_oldest(archives)
            return
    archive.touch()
    with tarfile.open(archive) as tar:
        # The archive is in this user's own directory. Releases of Python 3.9 to 3.11 without filters have no attribute.
        tar.extraction_filter = getattr(tarfile, "tar_filter", None)
        tar.extractall(directory)


def install(lock: Path, directory: Path) -> None:
    """Install the packages of a lock, and nothing that they require besides. Raises CannotInstall with pip's reason."""
    print("trainway: pip installs the packages of the run", file=sys.stderr, flush=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    options = ["--no-deps", "--require-hashes", "--target", str(directory), "--requirement", str(lock)]
    done = subprocess.run([*pip, *options], stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise CannotInstall(f"{sys.executable} has no pip, which installs run.packages")
    errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    if "DO NOT MATCH THE HASHES" in done.stderr:
        errors = ["a file of the index does not have the checksum of the lock"]
    reason = errors[-1] if errors else (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    is_temporary = _UNREACHABLE.search(done.stderr) is not None
    raise CannotInstall(
        f"the packages of the run cannot be installed: {reason}"
        + (" (the package index cannot be reached)" if is_temporary else ""),
        FAILED if is_temporary else FAILED_FOR_GOOD,
    )


def forget_oldest(archives: Path) -> None:
    """Delete the archives that were not used for the longest time, except for KEPT_ARCHIVES."""
    newest_first = sorted(archives.glob("*.tar"), key=lambda each: each.stat().st_mtime, reverse=True)
    for archive in newest_first[KEPT_ARCHIVES:]:
        archive.unlink(missing_ok=True)
        archive.with_suffix(".lock").unlink(missing_ok=True)


def _locked(file: "TextIO") -> bool:
    """Lock a file if no other node has. The lock ends with this process."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks. Two nodes may then do the same work, and the archives are equal.
        return True
    return True


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
