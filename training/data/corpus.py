"""Find the text of a corpus, and cut it into pieces that can be read independently."""

import gzip
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.errors import UserError

PIECE_BYTES = 64 * 2**20
"""Approximate size of a piece of a JSONL file, in bytes."""


@dataclass(frozen=True)
class Piece:
    """A part of a file, from `first` to before `end`."""

    path: Path
    name: str
    """Name of the file, the same on every machine."""
    size: int
    """Size in bytes. For a Parquet file, the uncompressed size."""
    first: int = 0
    end: int = 0
    """Byte of a JSONL file, or row group of a Parquet file. Unused for other files, which are one piece."""


@dataclass(frozen=True)
class Corpus:
    """Documents in a fixed order."""

    source: str
    """Description of the text, and its license if known."""
    pieces: list[Piece]
    key: str = "text"
    """Key or column of a document's text in JSONL and Parquet."""
    tokens: bool = False
    """Whether the pieces hold tokens (see `foreign.py`) instead of text."""


def python_standard_library(limit_bytes: int | None) -> Corpus:
    """Return the source of this Python's standard library as a corpus: about 30 MB of text.

    Its license is the Python Software Foundation License. Every machine that can run the job has it, so nothing has to
    be downloaded.
    """
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in root.rglob("*.py") if not {"site-packages", "__pycache__"} & set(path.parts)]
    version = ".".join(str(part) for part in sys.version_info[:3])
    return _corpus(f"Source of the Python {version} standard library (PSF-2.0)", root, files, limit_bytes)


def text_directory(root: Path, limit_bytes: int | None, key: str = "text") -> Corpus:
    """Return every file below a directory except hidden ones.

    .jsonl, .jsonl.gz, and .parquet files are read by `key`, all others as text.

    Raises:
        UserError: the directory does not exist, or pyarrow is needed and not installed.
    """
    if not root.is_dir():
        raise UserError(f"--text {root}: there is no such directory")
    files = [path for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return _corpus(f"Files of {root.name}", root, files, limit_bytes, key)


def read(piece: Piece, key: str) -> Iterator[str]:
    """Yield the documents of a piece. A text file that is not UTF-8 has none.

    Raises:
        UserError: a line or a column does not have the required form. The message says where.
    """
    if piece.name.endswith((".jsonl", ".jsonl.gz")):
        yield from _json_lines(piece, key)
    elif piece.name.endswith(".parquet"):
        file = _parquet(piece.path)
        if key not in file.schema_arrow.names:
            raise UserError(f"{piece.path}: has no column {key!r}, but {file.schema_arrow.names}; choose with --key")
        for group in range(piece.first, piece.end):
            yield from (text for text in file.read_row_group(group, [key]).column(0).to_pylist() if text)
    else:
        try:
            text = piece.path.read_bytes().decode()
        except UnicodeDecodeError:
            print(f"{piece.path} is not UTF-8 and was left out", file=sys.stderr)
            return
        yield text


def _json_lines(piece: Piece, key: str) -> Iterator[str]:
    packed = piece.name.endswith(".gz")
    with gzip.open(piece.path) if packed else piece.path.open("rb") as file:
        if piece.first:
            # A line that runs into this piece belongs to the piece in which it begins.
            file.seek(piece.first - 1)
            file.readline()
        while (begin := file.tell()) < piece.end or packed:
            line = file.readline()
            if not line:
                return
            try:
                text = json.loads(line)[key] if line.strip() else ""
                if not isinstance(text, str):
                    raise TypeError(f"{key!r} is not text but {type(text).__name__}")
            except (ValueError, KeyError, TypeError) as error:
                problem = f"there is no {error} in it" if isinstance(error, KeyError) else str(error)
                raise UserError(
                    f"{piece.path}: the line at byte {begin} is not a JSON object with a text: {problem}. "
                    "Correct the line, or choose the key with --key"
                ) from error
            if text:
                yield text


def _parquet(path: Path) -> Any:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise UserError(f"{path}: reading Parquet requires pyarrow: install trainway[parquet]") from error
    return ParquetFile(path)


def _corpus(source: str, root: Path, files: list[Path], limit_bytes: int | None, key: str = "text") -> Corpus:
    """Return the files up to the limit, in an arbitrary order that is the same on every machine."""
    names = {path.relative_to(root).as_posix(): path for path in files}
    pieces: list[Piece] = []
    left = limit_bytes
    for name in sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest()):
        for piece in _cut(names[name], name):
            if piece.size == 0 or (left is not None and piece.size > left):
                continue
            pieces.append(piece)
            left = None if left is None else left - piece.size
    if not pieces:
        raise UserError(f"{root}: there is no text here" + (" within --limit-bytes" if limit_bytes else ""))
    return Corpus(source, pieces, key)


def _cut(path: Path, name: str) -> Iterator[Piece]:
    size = path.stat().st_size
    if name.endswith(".jsonl"):
        for first in range(0, size, PIECE_BYTES):
            end = min(first + PIECE_BYTES, size)
            yield Piece(path, name, end - first, first, end)
    elif name.endswith(".parquet"):
        metadata = _parquet(path).metadata
        for group in range(metadata.num_row_groups):
            yield Piece(path, name, metadata.row_group(group).total_byte_size, group, group + 1)
    else:
        yield Piece(path, name, size)
