"""The files of a directory with code: what is sent to the nodes, and which version of it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from trainway.launch.runs.run_directory import RUNS
from trainway.spec.errors import usage_error

IGNORE_FILE = ".trainwayignore"
# Never sent, whatever Git knows of them: histories, environments with keys, private keys, and logins.
NEVER_SENT = (
    *(".git", ".env", ".env.*", ".envrc", "*.pem", "*.key", "id_rsa", "id_ecdsa", "id_ed25519"),
    *(".aws", ".ssh", ".netrc", ".pypirc"),
)
MOST_NAMED = 3


@dataclass(frozen=True)
class CodeFiles:
    """The files that are sent, in the order of their names, and those that are never sent."""

    directory: Path
    sent: tuple[Path, ...]
    withheld: tuple[Path, ...]

    @property
    def size(self) -> int:
        """The bytes of the files that are sent."""
        return sum(path.stat().st_size for path in self.sent)

    def largest(self) -> str:
        """Return the largest files with their sizes, for a message."""
        found = sorted(self.sent, key=lambda path: -path.stat().st_size)[:MOST_NAMED]
        return ", ".join(f"{path.relative_to(self.directory)} ({in_units(path.stat().st_size)})" for path in found)

    def __str__(self) -> str:
        """The number, the size, and the largest of the files, in a sentence."""
        count = f"{len(self.sent)} file{'' if len(self.sent) == 1 else 's'}"
        said = f"code: {count}, {in_units(self.size)}; the largest: {self.largest()}"
        withheld = ", ".join(str(path.relative_to(self.directory)) for path in self.withheld[:MOST_NAMED])
        return f"{said}; not sent: {withheld}" if withheld else said


def code_files(directory: Path) -> CodeFiles:
    """Return the files of a directory that neither .gitignore nor .trainwayignore leaves out.

    Outside of a Git repository, hidden files are left out as well. What is named like a key, and files that a link
    leads to outside of the directory, are withheld. Raises UsageError if .trainwayignore cannot be
    applied.
    """
    ignored = _ignored_by_trainway(directory)
    found = sorted(
        path
        for path in _listed(directory)
        if path.is_file()
        and path not in ignored
        and path.name != IGNORE_FILE
        and "__pycache__" not in path.parts
        and not _is_of_a_run(path.relative_to(directory), directory)
    )
    withheld = tuple(
        path for path in found if _is_withheld(path.relative_to(directory).parts) or _leads_out(path, directory)
    )
    return CodeFiles(directory, tuple(path for path in found if path not in withheld), withheld)


def code_version(directory: Path) -> dict[str, str | bool] | None:
    """Return the commit of a Git repository, and whether files differ from it. None outside of a repository."""
    commit = _git(directory, ["rev-parse", "HEAD"])
    changed = _git(directory, ["status", "--porcelain", "--", "."])
    return None if commit is None or changed is None else {"commit": commit.strip(), "dirty": bool(changed)}


def in_units(size: int) -> str:
    """Return a number of bytes in KiB or MiB, for example 2.1 MiB."""
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"


def _listed(directory: Path) -> list[Path]:
    listed = _git(directory, ["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    if listed is not None:
        return [directory / name for name in listed.split("\0") if name]
    found = directory.rglob("*")
    return [path for path in found if not any(part[0] == "." for part in path.relative_to(directory).parts)]


def _ignored_by_trainway(directory: Path) -> set[Path]:
    """Return the files that .trainwayignore names. Git reads the file, in a repository of no files."""
    file = directory / IGNORE_FILE
    if not file.is_file():
        return set()
    with tempfile.TemporaryDirectory() as empty:
        _git(Path(empty), ["init", "--quiet", "--bare", empty])
        words = [f"--git-dir={empty}", f"--work-tree={directory}", "ls-files", "-z", "--others", "--ignored"]
        listed = _git(directory, [*words, f"--exclude-from={file}"])
    if listed is None:
        why, fix = "Git reads that file, and did not", "install Git, or remove the file"
        raise usage_error(f"{file} cannot be applied", why=why, fix=fix)
    return {directory / name for name in listed.split("\0") if name}


def _git(directory: Path, words: Sequence[str]) -> str | None:
    """Return what Git says about a directory, or None without Git, or outside of a repository."""
    try:
        done = subprocess.run(["git", "-C", str(directory), *words], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout


def _is_withheld(parts: Iterable[str]) -> bool:
    return any(fnmatch(part, pattern) for part in parts for pattern in NEVER_SENT)


def _leads_out(path: Path, directory: Path) -> bool:
    """Return whether a link leads to a file outside of the directory, such as a key in somebody's home."""
    return not path.resolve().is_relative_to(directory.resolve())


def _is_of_a_run(name: Path, directory: Path) -> bool:
    """Return whether a file is of the record of a run that was launched from the directory."""
    return (
        name.parts[0] == RUNS.name and len(name.parts) > 2 and (directory / RUNS / name.parts[1] / "job.yaml").exists()
    )
