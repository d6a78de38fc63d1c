"""Data that was prepared without checksums of blocks trains with a warning, and a command adds the checksums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.damaged_data import flip, read_all
from training.config import Job
from training.data.checksum_writer import add_checksums
from training.data.shards import INDEX, read_index
from training.errors import UserError
from training.hosts import location_files
from training.prepare import main


def test_data_without_checksums_is_read_with_a_warning_until_they_are_added(
    old_corpus: Path, corpus_directory: Path, job: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from training.data.batches import read
    from training.data.sources import open_sources

    document = Job.model_validate(job | {"data": job["data"] | {"train": str(old_corpus)}})
    before = open_sources(document)
    number = len(read_index(str(old_corpus)).shards)
    warning = capsys.readouterr().err
    assert f"warning: {old_corpus}: {number} of {number} shards have no checksums of their blocks" in warning
    assert f"`python -m training.prepare --add-checksums --out {old_corpus}`" in warning

    assert add_checksums(str(old_corpus)) == read_index(str(old_corpus)) == read_index(str(corpus_directory))
    assert {path.name: path.read_bytes() for path in old_corpus.iterdir()} == {
        path.name: path.read_bytes() for path in corpus_directory.iterdir()
    }
    after = open_sources(document)
    assert capsys.readouterr().err == ""
    assert after.identity == before.identity, "a run resumes after the checksums were added"
    assert np.array_equal(read(after.samples, np.arange(200)), read(before.samples, np.arange(200)))
    for sources in (before, after):
        sources.samples.close()
    flip(old_corpus / "train-00001.bin", 7)
    with pytest.raises(UserError, match=r"train-00001\.bin: the tokens 0 to"):
        read_all(old_corpus)


def test_only_one_rank_warns(
    old_corpus: Path, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from training.data.sources import open_sources

    monkeypatch.setenv("RANK", "1")
    open_sources(Job.model_validate(job | {"data": job["data"] | {"train": str(old_corpus)}})).samples.close()
    assert capsys.readouterr().err == ""


def add_by_command(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    """Run the command that adds checksums."""
    monkeypatch.setattr("sys.argv", ["prepare", "--add-checksums", "--out", str(data)])
    main()


def test_the_command_writes_only_what_is_missing(
    own_corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, index = (own_corpus / "train-00001.crc32").read_bytes(), (own_corpus / INDEX).read_bytes()
    flip(own_corpus / "train-00001.crc32", 1)
    kept = (own_corpus / "train-00000.crc32").stat().st_mtime_ns
    add_by_command(monkeypatch, own_corpus)
    assert (own_corpus / "train-00001.crc32").read_bytes() == sound
    assert (own_corpus / "train-00000.crc32").stat().st_mtime_ns == kept
    assert (own_corpus / INDEX).read_bytes() == index
    assert "shards have checksums of their blocks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: flip(data / "train-00001.bin", 7), "train-00001.bin: the content does not match the index. Copy"),
        (lambda data: (data / "train-00001.bin").unlink(), "train-00001.bin: the file does not exist. Copy"),
        (lambda data: (data / INDEX).unlink(), "there are no token shards here"),
    ],
    ids=["damaged", "missing", "no index"],
)
def test_the_command_gives_no_checksums_to_a_damaged_shard(
    old_corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    message: str,
) -> None:
    damage(old_corpus)
    index = (old_corpus / INDEX).read_bytes() if (old_corpus / INDEX).exists() else None
    with pytest.raises(SystemExit) as ended:
        add_by_command(monkeypatch, old_corpus)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert index == ((old_corpus / INDEX).read_bytes() if (old_corpus / INDEX).exists() else None)


def test_the_command_refuses_several_ranks(
    old_corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(SystemExit, match="2"):
        add_by_command(monkeypatch, old_corpus)
    assert "4 ranks would write the same index" in capsys.readouterr().err
    assert not list(old_corpus.glob("*.crc32"))


def test_checksums_are_added_in_s3(old_corpus: Path, corpus_directory: Path, s3: str) -> None:
    for path in old_corpus.iterdir():
        location_files.write(f"{s3}/corpus/{path.name}", path.read_bytes())
    assert add_checksums(f"{s3}/corpus") == read_index(str(corpus_directory)) == read_index(f"{s3}/corpus")
    sound = (corpus_directory / "train-00001.crc32").read_bytes()
    assert location_files.read(f"{s3}/corpus/train-00001.crc32") == sound
