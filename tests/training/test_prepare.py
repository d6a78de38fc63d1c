"""The same text and options give the same files, and finished work is not done again."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from training.data.corpus import python_standard_library, text_directory
from training.data.shards import INDEX, read_index
from training.data.tokenizer import END_OF_TEXT
from training.errors import UserError
from training.hosts import location_files
from training.prepare import UNFINISHED, Worker, prepare


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
        prepare(text_directory(text, None), str(tmp_path / name), vocabulary=300, shard_bytes=6000)
    one = files(tmp_path / "one")
    assert one == files(tmp_path / "two")
    assert {INDEX, "tokenizer.json", "train-00000.bin", "train-00001.bin"} <= set(one)


def test_the_tokens_decode_to_the_text(text: Path, tmp_path: Path) -> None:
    index = prepare(text_directory(text, None), str(tmp_path / "out"), vocabulary=300, shard_bytes=6000)
    assert index
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
        prepare(text_directory(text, None), str(directory), vocabulary=300, shard_bytes=6000)
    last = sorted(broken.glob("*.bin"))[-1]
    kept = sorted(broken.glob("*.bin"))[0]
    (broken / INDEX).rename(broken / UNFINISHED)
    last.write_bytes(b"half")
    written = kept.stat().st_mtime_ns

    prepare(text_directory(text, None), str(broken), vocabulary=300, shard_bytes=6000)
    assert files(broken) == files(whole)
    assert kept.stat().st_mtime_ns == written, "a finished shard is verified, not written again"


@pytest.mark.parametrize("suffix", ["bin", "crc32"])
def test_a_damaged_file_of_finished_data_is_written_again(text: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / "out"
    prepare(text_directory(text, None), str(out), vocabulary=300, shard_bytes=6000)
    sound = files(out)
    damaged = sorted(out.glob(f"*.{suffix}"))[1]
    damaged.write_bytes(bytes([damaged.read_bytes()[0] ^ 1]) + damaged.read_bytes()[1:])
    kept = {path: path.stat().st_mtime_ns for path in out.glob("train-*") if path.stem != damaged.stem}
    prepare(text_directory(text, None), str(out), vocabulary=300, shard_bytes=6000)
    assert files(out) == sound
    assert kept == {path: path.stat().st_mtime_ns for path in kept}


def test_finished_data_of_other_options_is_not_overwritten(text: Path, tmp_path: Path) -> None:
    prepare(text_directory(text, None), str(tmp_path / "out"), vocabulary=300, shard_bytes=6000)
    with pytest.raises(UserError, match="made from other text or with other options"):
        prepare(text_directory(text, None), str(tmp_path / "out"), vocabulary=301, shard_bytes=6000)


def test_preparing_to_s3_gives_what_the_disk_gets_and_is_verified_there(text: Path, tmp_path: Path, s3: str) -> None:
    arguments = (text_directory(text, None), f"{s3}/corpus", 300, 6000)
    index = prepare(*arguments)
    assert index
    on_disk = prepare(text_directory(text, None), str(tmp_path / "out"), 300, 6000)
    assert read_index(f"{s3}/corpus") == index == on_disk
    damaged = index.shards[-1]
    location_files.write(f"{s3}/corpus/{damaged.name}", b"\0" * damaged.bytes)
    prepare(*arguments)
    assert location_files.read(f"{s3}/corpus/{damaged.name}") == (tmp_path / "out" / damaged.name).read_bytes()


def test_the_standard_library_is_cut_at_the_limit_and_always_the_same() -> None:
    corpus = python_standard_library(limit_bytes=200_000)
    assert 150_000 < sum(piece.size for piece in corpus.pieces) <= 200_000
    assert corpus == python_standard_library(limit_bytes=200_000)
    assert "PSF" in corpus.source


def test_files_that_are_not_utf8_are_left_out_and_named(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (text / "latin1.txt").write_bytes("é".encode("latin-1"))
    index = prepare(text_directory(text, None), str(tmp_path / "out"), vocabulary=300, shard_bytes=6000)
    assert index
    assert sum(shard.documents for shard in index.shards) == 40
    assert "latin1.txt is not UTF-8 and was left out" in capsys.readouterr().err


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_that_know_nothing_of_each_other_make_what_one_makes(text: Path, tmp_path: Path, world_size: int) -> None:
    corpus = text_directory(text, None)
    prepare(corpus, str(tmp_path / "one"), 300, 6000)
    indexes = [
        prepare(corpus, str(tmp_path / "many"), 300, 6000, worker=Worker(rank, world_size))
        for rank in range(world_size)
    ]
    assert indexes[:-1] == [None] * (world_size - 1)
    assert indexes[-1] == read_index(str(tmp_path / "one"))
    assert files(tmp_path / "many") == files(tmp_path / "one")


# A preparation that writes four shards, and then waits until somebody kills it.
WAITING = """
import threading
from training import prepare
write = prepare._write_shard
def write_four(location, part, *rest):
    if part == 4:
        threading.Event().wait()
    return write(location, part, *rest)
prepare._write_shard = write_four
prepare.main()
"""


def test_a_preparation_that_is_killed_goes_on_from_its_shards(text: Path, tmp_path: Path) -> None:
    for number in range(100):
        (text / f"more-{number}.txt").write_text(f"Text {number} has {number + 1} before it. " * 40)
    options = ["--text", str(text), "--vocabulary", "300", "--shard-bytes", "4000", "--out"]
    command = [sys.executable, "-m", "training.prepare", *options]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    waiting = [sys.executable, "-c", WAITING, *options, str(tmp_path / "killed")]
    process = subprocess.Popen(waiting, stderr=subprocess.DEVNULL)
    while len(list((tmp_path / "killed").glob("*.made.json"))) < 4:
        assert process.poll() is None
        time.sleep(0.002)
    process.kill()
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "killed").glob("*.made.json")}
    shards = {name: (tmp_path / "killed" / name.replace(".made.json", ".bin")) for name in before}
    written = {name: shard.stat().st_mtime_ns for name, shard in shards.items()}
    assert not (tmp_path / "killed" / INDEX).exists()
    subprocess.run([*command, str(tmp_path / "killed")], check=True, capture_output=True)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")
    assert {name: shard.stat().st_mtime_ns for name, shard in shards.items()} == written


def documents_of(directory: Path) -> list[str]:
    """The documents of finished data, in order."""
    index = read_index(str(directory))
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokens = np.concatenate([np.fromfile(directory / shard.name, dtype=index.dtype) for shard in index.shards])
    *documents, rest = tokenizer.decode(tokens.tolist(), skip_special_tokens=False).split(END_OF_TEXT)
    assert rest == ""
    return documents


def test_a_jsonl_file_is_cut_between_lines_wherever_its_pieces_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"Line {number}: é\n" + "x" * (number * 7 % 50) for number in range(60)]
    written = "".join(json.dumps({"id": n, "content": line}, ensure_ascii=False) + "\n" for n, line in enumerate(lines))
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/lines.jsonl").write_text(written + '{"content": ""}\n\n')
    for piece_bytes in (7, 64, 1000, 10**6):
        monkeypatch.setattr("training.data.corpus.PIECE_BYTES", piece_bytes)
        out = tmp_path / f"out-{piece_bytes}"
        prepare(text_directory(tmp_path / "raw", None, "content"), str(out), vocabulary=300, shard_bytes=500)
        assert documents_of(out) == lines


def test_gzipped_jsonl_and_parquet_give_their_texts(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    (tmp_path / "raw").mkdir()
    with gzip.open(tmp_path / "raw/a.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": f"zipped {number}"}) + "\n" for number in range(10))
    table = pyarrow.table({"text": [f"column {number}" for number in range(25)], "other": list(range(25))})
    pyarrow.parquet.write_table(table, tmp_path / "raw/b.parquet", row_group_size=10)
    prepare(text_directory(tmp_path / "raw", None), str(tmp_path / "out"), vocabulary=300, shard_bytes=100)
    expected = [f"zipped {number}" for number in range(10)] + [f"column {number}" for number in range(25)]
    assert sorted(documents_of(tmp_path / "out")) == sorted(expected)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not a JSON object"),
        ('{"body": "x"}', "there is no 'text' in it"),
        ('{"text": 3}', "'text' is not text but int"),
        ("[]", "not a JSON object"),
    ],
)
def test_a_line_that_holds_no_text_is_named_by_file_and_byte(line: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/lines.jsonl").write_text('{"text": "right"}\n' + line + "\n")
    with pytest.raises(UserError, match=r"lines\.jsonl: the line at byte 18 ") as caught:
        prepare(text_directory(tmp_path / "raw", None), str(tmp_path / "out"), vocabulary=300)
    assert problem in str(caught.value)


def test_a_tokenizer_that_is_brought_along_is_taken_as_it_is(text: Path, tmp_path: Path) -> None:
    prepare(text_directory(text, None), str(tmp_path / "first"), vocabulary=400)
    given = tmp_path / "first/tokenizer.json"
    index = prepare(text_directory(text, None), str(tmp_path / "out"), vocabulary=300, tokenizer=given)
    assert index
    assert (tmp_path / "out/tokenizer.json").read_bytes() == given.read_bytes()
    assert index.vocabulary == read_index(str(tmp_path / "first")).vocabulary
    assert documents_of(tmp_path / "out") == documents_of(tmp_path / "first")
    with pytest.raises(UserError, match="no token <end>; name the one that ends a document"):
        prepare(text_directory(text, None), str(tmp_path / "other"), vocabulary=300, tokenizer=given, end="<end>")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--text", "nowhere", "--out", "out"], "there is no such directory"),
        (["--corpus", "python-stdlib", "--limit-bytes", "9999", "--vocabulary", "99", "--out", "out"], "need 257"),
        (["--corpus", "python-stdlib", "--limit-bytes", "9999", "--out", "fsx:/out"], "does not say where fsx: is"),
        *(
            pytest.param(*each, marks=pytest.mark.exhaustive)
            for each in (
                (["--tokens", "megatron", "--out", "out"], "--tokens needs --tokenizer"),
                (["--tokens", "megatron", "--tokenizer", "nothing.json", "--out", "out"], "neither megatron.idx"),
                (["--text", ".", "--tokenizer", "nothing.json", "--out", "out"], "nothing.json: cannot be read"),
            )
        ),
    ],
)
def test_a_mistake_on_the_command_line_is_one_message_and_exit_status_2(
    arguments: list[str], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("words")
    command = [sys.executable, "-m", "training.prepare", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
