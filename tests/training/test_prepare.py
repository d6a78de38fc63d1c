"""The same text and options give the same files, and finished work is not done again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from training import storage
from training.corpus import python_standard_library, text_directory
from training.errors import UserError
from training.prepare import END_OF_TEXT, UNFINISHED, prepare
from training.shards import INDEX, read_index


@pytest.fixture
def text(tmp_path: Path) -> Path:
    directory = tmp_path / "text"
    directory.mkdir()
    for number in range(40):
        (directory / f"{number}.txt").write_text(f"Document {number} is about the number {number * number}. é\n" * 20)
    return directory


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_two_preparations_are_equal_byte_for_byte(text: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        prepare(text_directory(text, None), str(tmp_path / name), vocabulary=300, shard_tokens=2000)
    one = files(tmp_path / "one")
    assert one == files(tmp_path / "two")
    assert {INDEX, "tokenizer.json", "train-00000.bin", "train-00001.bin"} <= set(one)


def test_the_tokens_decode_to_the_text(text: Path, tmp_path: Path) -> None:
    index = prepare(text_directory(text, None), str(tmp_path / "out"), vocabulary=300, shard_tokens=2000)
    tokenizer = Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    tokens = np.concatenate([np.fromfile(tmp_path / "out" / shard.name, dtype=index.dtype) for shard in index.shards])
    assert len(tokens) == index.tokens
    assert tokens.max() < index.vocabulary == tokenizer.get_vocab_size()
    decoded = tokenizer.decode(tokens.tolist(), skip_special_tokens=False).split(END_OF_TEXT)
    assert sorted(decoded[:-1]) == sorted(path.read_text() for path in text.iterdir())
    assert decoded[-1] == ""


def test_an_interrupted_preparation_goes_on_and_ends_the_same(text: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for directory in (whole, broken):
        prepare(text_directory(text, None), str(directory), vocabulary=300, shard_tokens=2000)
    last = sorted(broken.glob("*.bin"))[-1]
    kept = sorted(broken.glob("*.bin"))[0]
    (broken / INDEX).rename(broken / UNFINISHED)
    last.write_bytes(b"half")
    written = kept.stat().st_mtime_ns

    prepare(text_directory(text, None), str(broken), vocabulary=300, shard_tokens=2000)
    assert files(broken) == files(whole)
    assert kept.stat().st_mtime_ns == written, "a finished shard is verified, not written again"


def test_finished_data_of_other_options_is_not_overwritten(text: Path, tmp_path: Path) -> None:
    prepare(text_directory(text, None), str(tmp_path / "out"), vocabulary=300, shard_tokens=2000)
    with pytest.raises(UserError, match="made from other text or with other options"):
        prepare(text_directory(text, None), str(tmp_path / "out"), vocabulary=301, shard_tokens=2000)


def test_preparing_to_s3_gives_what_the_disk_gets_and_is_verified_there(text: Path, tmp_path: Path, s3: str) -> None:
    arguments = (text_directory(text, None), f"{s3}/corpus", 300, 2000)
    index = prepare(*arguments)
    on_disk = prepare(text_directory(text, None), str(tmp_path / "out"), 300, 2000)
    assert read_index(f"{s3}/corpus") == index == on_disk
    damaged = index.shards[-1]
    storage.write(f"{s3}/corpus/{damaged.name}", b"\0" * damaged.bytes)
    prepare(*arguments)
    assert storage.read(f"{s3}/corpus/{damaged.name}") == (tmp_path / "out" / damaged.name).read_bytes()


def test_the_standard_library_is_cut_at_the_limit_and_always_the_same() -> None:
    corpus = python_standard_library(limit_bytes=200_000)
    size = sum(path.stat().st_size for path in corpus.documents)
    assert 150_000 < size <= 200_000
    assert corpus == python_standard_library(limit_bytes=200_000)
    assert "PSF" in corpus.source


def test_files_that_are_not_utf8_are_left_out_and_counted(text: Path) -> None:
    (text / "latin1.txt").write_bytes("é".encode("latin-1"))
    corpus = text_directory(text, None)
    assert (len(corpus.documents), corpus.skipped) == (40, 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--text", "nowhere", "--out", "out"], "there is no such directory"),
        (["--corpus", "python-stdlib", "--limit-bytes", "9999", "--vocabulary", "99", "--out", "out"], "need 257"),
        (["--corpus", "python-stdlib", "--limit-bytes", "9999", "--out", "fsx:/out"], "does not say where fsx: is"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_message_and_exit_status_2(
    arguments: list[str], sentence: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "training.prepare", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
