"""Unpack the archive of a run's code into a directory of a node in which no other user can put anything.

The directory is below /tmp, where any user of the node can create a directory of any name. Python runs what it imports
from it, so an existing directory is used only if it belongs to this user and no other user can write to it. Its files
are compared with the archive, whose SHA-256 the launch has stated.

The launcher sends this file to nodes. It requires Python 3.9 and nothing else.
"""

import contextlib
import fcntl
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

FILTER = getattr(tarfile, "data_filter", None)
"""Python's check of where the files and links of an archive lead. None before 3.11.4 and its like of other releases."""


class UnsafeCodeDirectory(Exception):
    """Another user owns the directory for code or can write to it, or the archive leads out of it."""


def unpack(content: bytes, digest: str, directory: Path) -> Path:
    """Return the directory below `directory` that has the files of a tar.gz, which has this SHA-256.

    Files that have changed since an earlier start are replaced. Files that a program has added stay.

    Raises:
        UnsafeCodeDirectory: `directory` exists, and is not this user's alone, or the archive leads out of it.
        OSError: a file cannot be written.
    """
    make_private(directory)
    code = directory / digest
    # Several ranks of a node may unpack at once.
    with _locked(directory), tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        what = f"the run's code cannot be unpacked into {directory}"
        for member in tar:
            if _leads_out(member):
                raise UnsafeCodeDirectory(f"{what}: {member.name} of its archive leads out of it. Launch the run again")
        tar.extraction_filter = FILTER
        if not _holds(code, tar):
            with tempfile.TemporaryDirectory(dir=directory) as unfinished:
                try:
                    tar.extractall(Path(unfinished) / "code")
                except tarfile.TarError as error:
                    raise UnsafeCodeDirectory(f"{what}: {error}. Launch the run again") from None
                if os.path.lexists(code):
                    code.rename(Path(unfinished) / "before")
                (Path(unfinished) / "code").rename(code)
    return code


def make_private(directory: Path) -> None:
    """Create a directory that only this user can read and change, or check that an existing one is such a directory.

    Raises UnsafeCodeDirectory if it is a link or a file, if another user owns it, or if others can write to it.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    what = f"the run's code cannot be unpacked into {directory}"
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeCodeDirectory(f"{what}: it is not a directory. Remove it from the node")
    if found.st_uid != os.geteuid():
        raise UnsafeCodeDirectory(
            f"{what}: it belongs to the user with the ID {found.st_uid}, who could change the code. Ask an "
            "administrator to remove it from the node"
        )
    if found.st_mode & 0o022:
        raise UnsafeCodeDirectory(f"{what}: other users can write to it. Remove it from the node")


def _leads_out(member: tarfile.TarInfo) -> bool:
    """Return whether a member of an archive may be written outside of the directory, or may be a link to outside.

    Without FILTER, no link may have `..`, because nothing checks where it leads by way of other links.
    """
    paths = [member.name]
    if member.islnk() or (member.issym() and FILTER is None):
        paths.append(member.linkname)
    return any(path.startswith("/") or ".." in path.split("/") for path in paths)


@contextlib.contextmanager
def _locked(directory: Path) -> "Iterator[None]":
    """Let one process at a time unpack below a directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _holds(code: Path, tar: tarfile.TarFile) -> bool:
    """Return whether a directory has all files of an archive as they are in it."""
    if not _is_directory(code):
        return False
    for member in tar:
        path = code / member.name
        parents = [parent for parent in path.parents if code in parent.parents]
        if not member.isfile() or not all(map(_is_directory, parents)) or not _is_file(path, member):
            return False
        of_archive = tar.extractfile(member)
        if of_archive is None or path.read_bytes() != of_archive.read():
            return False
    return True


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_file(path: Path, member: tarfile.TarInfo) -> bool:
    """Return whether a path is a file of the length and the permission to execute that the archive has."""
    try:
        found = path.lstat()
    except OSError:
        return False
    is_same = found.st_size == member.size and bool(found.st_mode & 0o100) == bool(member.mode & 0o100)
    return stat.S_ISREG(found.st_mode) and is_same
