"""Tokens in the formats of others arrive as they are; the files are written here, from the formats' descriptions."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from training.data.foreign import foreign_tokens, read_tokens
from training.data.shards import read_index
from training.data.tokenizer import end_of_text, train_tokenizer
from training.errors import UserError
from training.prepare import prepare

END = 0  # what the tokenizers of these tests end a document with
DOCUMENTS = [[5, 6, 7, END], [8] * 30, [9, END], [300, 301, 302]]


def write_megatron(prefix: Path, documents: list[list[list[int]]], dtype: str, code: int) -> None:
    """Documents of sequences, as megatron/core/datasets/indexed_dataset.py lays them out."""
    sequences = [sequence for document in documents for sequence in document]
    contents = [np.array(sequence, dtype).tobytes() for sequence in sequences]
    Path(f"{prefix}.bin").write_bytes(b"".join(contents))
    begins, ends = [0], [0]
    for content in contents:
        begins.append(begins[-1] + len(content))
    for document in documents:
        ends.append(ends[-1] + len(document))
    Path(f"{prefix}.idx").write_bytes(
        b"MMIDIDX\x00\x00"
        + struct.pack("<QBQQ", 1, code, len(sequences), len(ends))
        + struct.pack(f"<{len(sequences)}i", *map(len, sequences))
        + struct.pack(f"<{len(sequences)}q", *begins[:-1])
        + struct.pack(f"<{len(ends)}q", *ends)
    )


def write_mds(directory: Path, shards: list[list[list[int]]], encoding: str) -> None:
    """Samples of tokens between two other columns, as streaming/base/format/mds lays them out."""
    directory.mkdir()
    entries = []
    for number, samples in enumerate(shards):
        encoded = []
        for place, tokens in enumerate(samples):
            if encoding == "bytes":
                column = np.array(tokens, "<i8").tobytes()
            elif encoding.count(":") == 2:
                column = np.array(tokens, "<u4").tobytes()
            else:  # one dimension, whose length takes two bytes
                column = bytes([1 << 2 | 1]) + struct.pack("<H", len(tokens)) + np.array(tokens, "<u2").tobytes()
            name = f"sample {place}".encode()
            fixed = encoding.count(":") == 2
            lengths = struct.pack("<I", len(name)) if fixed else struct.pack("<2I", len(name), len(column))
            encoded.append(lengths + name + column + struct.pack("<q", place))
        description = b'{"format": "mds"}'
        begins = [4 + 4 * (len(samples) + 1) + len(description)]
        for sample in encoded:
            begins.append(begins[-1] + len(sample))
        header = struct.pack(f"<I{len(begins)}I", len(samples), *begins)
        (directory / f"shard.{number:05d}.mds").write_bytes(header + description + b"".join(encoded))
        entries.append(
            {
                "column_names": ["name", "tokens", "weight"],
                "column_encodings": ["str", encoding, "int"],
                "column_sizes": [None, 4 * len(samples[0]) if fixed else None, 8],
                "format": "mds",
                "version": 2,
                "raw_data": {"basename": f"shard.{number:05d}.mds"},
                "samples": len(samples),
                "zip_data": None,
            }
        )
    (directory / "index.json").write_text(json.dumps({"version": 2, "shards": entries}))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of about 320 tokens."""
    made = train_tokenizer([f"some words, {number} of them" for number in range(500)], 320)
    assert end_of_text(made, None) == END
    assert made.get_vocab_size() > 302
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return path


def read_all(path: Path) -> list[list[int]]:
    return [tokens.tolist() for piece in foreign_tokens(path).pieces for tokens in read_tokens(piece, END)]


@pytest.mark.parametrize(("dtype", "code"), [("<u2", 8), ("<i4", 4), ("<i8", 5)])
@pytest.mark.parametrize("piece_bytes", [1, 64, 10**6])
def test_megatron_s_documents_arrive_whole_and_ended(
    dtype: str, code: int, piece_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.data.foreign.PIECE_BYTES", piece_bytes)
    # The second document is of two sequences.
    write_megatron(
        tmp_path / "web", [[DOCUMENTS[0]], [[8] * 10, [8] * 20], [DOCUMENTS[2]], [DOCUMENTS[3]]], dtype, code
    )
    ended = [[*document, END] if document[-1] != END else document for document in DOCUMENTS]
    assert read_all(tmp_path / "web") == ended


@pytest.mark.parametrize("encoding", ["bytes", "ndarray:uint16", "ndarray:uint32:8"])
def test_the_samples_of_mds_arrive_in_order(encoding: str, tmp_path: Path) -> None:
    samples = [[number * 8 + place for place in range(8)] for number in range(7)]
    write_mds(tmp_path / "mds", [samples[:4], samples[4:]], encoding)
    assert read_all(tmp_path / "mds") == samples


def test_foreign_tokens_become_shards_with_their_tokenizer(tokenizer: Path, tmp_path: Path) -> None:
    write_megatron(tmp_path / "web", [[document] for document in DOCUMENTS], "<i4", 4)
    index = prepare(foreign_tokens(tmp_path / "web"), str(tmp_path / "out"), 32768, tokenizer=tokenizer)
    assert index == read_index(str(tmp_path / "out"))
    assert index
    tokens = np.fromfile(tmp_path / "out" / index.shards[0].name, dtype=index.dtype)
    assert tokens.tolist() == [5, 6, 7, END, *[8] * 30, END, 9, END, 300, 301, 302, END]
    assert index.shards[0].documents == 4
    assert index.vocabulary == Tokenizer.from_file(str(tokenizer)).get_vocab_size()


def test_tokens_of_another_tokenizer_are_refused(tokenizer: Path, tmp_path: Path) -> None:
    write_megatron(tmp_path / "web", [[[1, 40_000]]], "<u2", 8)
    with pytest.raises(UserError, match=r"web\.bin: has the token 40000, but the tokenizer's are below"):
        prepare(foreign_tokens(tmp_path / "web"), str(tmp_path / "out"), 32768, tokenizer=tokenizer)


def test_a_damaged_index_is_refused(tmp_path: Path) -> None:
    write_megatron(tmp_path / "web", [[document] for document in DOCUMENTS], "<u2", 8)
    whole = (tmp_path / "web.idx").read_bytes()
    for content, sentence in [
        (b"nothing" + whole[7:], "is not an index"),
        (whole[:17] + b"\x07" + whole[18:], "version 1 and type 7"),
        (whole[:-8], "its header announces"),
    ]:
        (tmp_path / "web.idx").write_bytes(content)
        with pytest.raises(UserError, match=sentence):
            foreign_tokens(tmp_path / "web")
    (tmp_path / "web.idx").write_bytes(whole)
    (tmp_path / "web.bin").write_bytes(b"")
    with pytest.raises(UserError, match=r"web\.idx needs 78 bytes of it"):
        foreign_tokens(tmp_path / "web")


def test_an_mds_shard_that_is_packed_or_without_tokens_is_refused(tmp_path: Path) -> None:
    write_mds(tmp_path / "mds", [[[1, 2]]], "bytes")
    index = json.loads((tmp_path / "mds/index.json").read_text())
    index["shards"][0]["column_names"][1] = "text"
    (tmp_path / "mds/index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match="none of which is tokens or input_ids"):
        read_all(tmp_path / "mds")
    index["shards"][0]["zip_data"] = {"basename": "shard.00000.mds.zstd"}
    (tmp_path / "mds/index.json").write_text(json.dumps(index))
    (tmp_path / "mds/shard.00000.mds").unlink()
    with pytest.raises(UserError, match="Decompress it first"):
        foreign_tokens(tmp_path / "mds")
