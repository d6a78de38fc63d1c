"""Where text comes from."""

import hashlib
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from training.errors import UserError


@dataclass(frozen=True)
class Corpus:
    """Documents in a fixed order."""

    source: str
    """What the text is, and its licence where that is known."""
    documents: list[Path]
    """Files of UTF-8 text."""
    skipped: int
    """Files that were left out because they are not UTF-8."""


def python_standard_library(limit_bytes: int | None) -> Corpus:
    """The source of the standard library of this Python (Python Software Foundation License): about 30 MB of text.

    It is on every machine that can run the job, so nothing has to be downloaded.
    """
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in root.rglob("*.py") if not {"site-packages", "__pycache__"} & set(path.parts)]
    version = ".".join(str(part) for part in sys.version_info[:3])
    return _corpus(f"Source of the Python {version} standard library (PSF-2.0)", root, files, limit_bytes)


def text_directory(root: Path, limit_bytes: int | None) -> Corpus:
    """Every file below a directory, less hidden ones.

    Raises:
        UserError: the directory does not exist.
    """
    if not root.is_dir():
        raise UserError(f"--text {root}: there is no such directory")
    files = [path for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return _corpus(f"Files of {root.name}", root, files, limit_bytes)


def _corpus(source: str, root: Path, files: list[Path], limit_bytes: int | None) -> Corpus:
    """The files in an order without meaning, that is the same on every machine, up to the limit."""
    ordered = sorted(files, key=lambda path: hashlib.sha256(path.relative_to(root).as_posix().encode()).digest())
    documents: list[Path] = []
    size = skipped = 0
    for path in ordered:
        if limit_bytes is not None and size + path.stat().st_size > limit_bytes:
            continue
        content = path.read_bytes()
        if not _is_utf8(content):
            skipped += 1
        elif content:
            documents.append(path)
            size += len(content)
    if not documents:
        raise UserError(f"{root}: there is no UTF-8 text here" + (" within --limit-bytes" if limit_bytes else ""))
    return Corpus(source, documents, skipped)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
