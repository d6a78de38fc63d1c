"""Tokens in the formats of other tools, by document: Megatron-LM's `.bin` and `.idx`, and MosaicML's MDS.

Megatron-LM: https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/datasets/indexed_dataset.py

MDS: https://docs.mosaicml.com/projects/streaming/en/stable/preparing_datasets/dataset_format.html and
https://github.com/mosaicml/streaming/blob/main/streaming/base/format/mds/reader.py (all read 2026-11-21)
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.data.corpus import PIECE_BYTES, Corpus, Piece
from training.errors import UserError

TokenArray = NDArray[np.generic]

MEGATRON_MAGIC = b"MMIDIDX\x00\x00"
MEGATRON_HEADER = struct.Struct("<9sQBQQ")  # magic, version, code of the type, sequences, ends of documents
MEGATRON_TYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
MDS_COLUMNS = ("tokens", "input_ids")
MDS_SHAPE_TYPES = ("<u1", "<u2", "<u4", "<u8")


def foreign_tokens(path: Path) -> Corpus:
    """Return the tokens at `path`: an MDS directory, or the common name of Megatron-LM's two files without suffix.

    Raises:
        UserError: `path` is neither, or does not have the form that the format requires.
    """
    index = Path(f"{path}.idx")
    if index.is_file():
        return Corpus(f"Megatron-LM's {path.name}", _megatron_pieces(path), tokens=True)
    if (path / "index.json").is_file():
        return Corpus(f"MDS of {path.name}", _mds_pieces(path), tokens=True)
    raise UserError(f"--tokens {path}: there is neither {path}.idx (Megatron-LM) nor {path}/index.json (MDS)")


def read_tokens(piece: Piece, end_of_text: int) -> Iterator[TokenArray]:
    """Yield the documents of a piece, as tokens.

    A document of Megatron-LM gets an end-of-text token if it has none. The samples of MDS are cut from a continuous
    text at a fixed length, so they are joined again unchanged.
    """
    if piece.path.suffix == ".bin":
        for tokens in _megatron_documents(piece):
            ended = len(tokens) and tokens[-1] == end_of_text
            yield tokens if ended else np.append(tokens, np.array(end_of_text, tokens.dtype))
    else:
        yield from _mds_samples(piece)


def _megatron_index(path: Path) -> tuple[str, TokenArray, TokenArray, TokenArray]:
    """Return the tokens' type, the length of each sequence, its first byte, and the first sequence of each document."""
    content = path.read_bytes()
    if len(content) < MEGATRON_HEADER.size or not content.startswith(MEGATRON_MAGIC):
        raise UserError(f"{path}: is not an index of Megatron-LM")
    _, version, code, sequences, ends = MEGATRON_HEADER.unpack_from(content)
    if version != 1 or code not in MEGATRON_TYPES:
        raise UserError(f"{path}: has version {version} and type {code}; supported: version 1 and {[*MEGATRON_TYPES]}")
    needed = MEGATRON_HEADER.size + 12 * sequences + 8 * ends
    if len(content) < needed:
        raise UserError(f"{path}: has {len(content)} bytes, but its header announces {needed}. Copy it again")
    lengths = np.frombuffer(content, "<i4", sequences, MEGATRON_HEADER.size)
    begins = np.frombuffer(content, "<i8", sequences, MEGATRON_HEADER.size + 4 * sequences)
    documents = np.frombuffer(content, "<i8", ends, MEGATRON_HEADER.size + 12 * sequences)
    return MEGATRON_TYPES[code], lengths, begins, documents


def _megatron_pieces(path: Path) -> list[Piece]:
    index, tokens = Path(f"{path}.idx"), Path(f"{path}.bin")
    dtype, lengths, begins, documents = _megatron_index(index)
    width = np.dtype(dtype).itemsize
    needed = int(begins[-1] + lengths[-1] * width) if len(lengths) else 0
    if not tokens.is_file() or tokens.stat().st_size < needed:
        raise UserError(f"{tokens}: {index.name} needs {needed} bytes of it, which are not there. Copy it again")
    starts = np.append(begins, needed)[documents]
    pieces = []
    first = 0
    while first < len(documents) - 1:
        end = max(first + 1, int(np.searchsorted(starts, starts[first] + PIECE_BYTES)))
        end = min(end, len(documents) - 1)
        pieces.append(Piece(tokens, tokens.name, int(starts[end] - starts[first]), first, end))
        first = end
    return pieces


def _megatron_documents(piece: Piece) -> Iterator[TokenArray]:
    dtype, lengths, begins, documents = _megatron_index(piece.path.with_suffix(".idx"))
    tokens = np.memmap(piece.path, dtype=dtype, mode="r")
    width = np.dtype(dtype).itemsize
    for document in range(piece.first, piece.end):
        sequences = range(int(documents[document]), int(documents[document + 1]))
        if sequences:
            yield np.concatenate([tokens[(at := int(begins[n]) // width) : at + int(lengths[n])] for n in sequences])


def _mds_shards(directory: Path) -> list[dict[str, Any]]:
    path = directory / "index.json"
    try:
        shards: list[dict[str, Any]] = json.loads(path.read_bytes())["shards"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is not the index of an MDS data set") from error
    return shards


def _mds_pieces(directory: Path) -> list[Piece]:
    pieces = []
    for number, shard in enumerate(_mds_shards(directory)):
        if shard["format"] != "mds" or shard["version"] != 2:
            raise UserError(f"{directory}: shard {number} is {shard['format']} {shard['version']}; supported: mds 2")
        path = directory / shard["raw_data"]["basename"]
        if not path.is_file():
            packed = " Decompress it first" if shard.get("zip_data") else " Copy it again"
            raise UserError(f"{path}: is in the index, but does not exist.{packed}")
        pieces.append(Piece(path, path.relative_to(directory).as_posix(), path.stat().st_size, number))
    return pieces


def _mds_samples(piece: Piece) -> Iterator[TokenArray]:
    """Yield the samples of a shard.

    A shard consists of its number of samples, the offset of each sample and of the end of the last one, a description,
    and the samples.
    """
    directory = piece.path
    for _ in Path(piece.name).parts:
        directory = directory.parent
    shard = _mds_shards(directory)[piece.first]
    names, encodings, widths = shard["column_names"], shard["column_encodings"], shard["column_sizes"]
    column = next((names.index(name) for name in MDS_COLUMNS if name in names), None)
    if column is None:
        raise UserError(f"{piece.path}: has the columns {names}, none of which is {' or '.join(MDS_COLUMNS)}")
    content = piece.path.read_bytes()
    (samples,) = struct.unpack_from("<I", content)
    begins = np.frombuffer(content, "<u4", samples + 1, 4)
    # The lengths of all variable-length columns come first, then the columns.
    varying = [number for number, width in enumerate(widths) if not width]
    for begin in begins[:-1].astype(int):
        stored = dict(zip(varying, np.frombuffer(content, "<u4", len(varying), begin).astype(int), strict=True))
        lengths = [stored.get(number, width) for number, width in enumerate(widths)]
        at = begin + 4 * len(varying) + sum(lengths[:column])
        yield _mds_array(content[at : at + lengths[column]], encodings[column], piece.path)


def _mds_array(content: bytes, encoding: str, path: Path) -> TokenArray:
    """Return the values of `bytes`, which llm-foundry stores as int64, or of `ndarray:<type>[:<shape>]`."""
    kind, _, rest = encoding.partition(":")
    if kind == "bytes":
        return np.frombuffer(content, "<i8")
    dtype, _, shape = rest.partition(":")
    if kind != "ndarray" or not dtype:
        raise UserError(f"{path}: the tokens are stored as {encoding!r}; supported are bytes and ndarray:<type>")
    if shape:
        return np.frombuffer(content, dtype)
    # The content is a byte with the number of dimensions and the type of their lengths, then the lengths, then the
    # values.
    dimensions, code = divmod(content[0], 4)
    return np.frombuffer(content, dtype, offset=1 + dimensions * np.dtype(MDS_SHAPE_TYPES[code]).itemsize)
