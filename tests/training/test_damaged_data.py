"""Damage of a token shard is found before it reaches the loss, by an error that names the shard."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.conftest import Launch
from tests.training.damaged_data import flip, read_all
from training.config import Job
from training.data.block_checksums import BLOCK_BYTES, Blocks, checksums_of
from training.data.cache import Cache
from training.data.checksum_writer import add_checksums
from training.data.shards import read_index, write_index
from training.errors import UserError
from training.hosts import location_files


def exchange(first: Path, second: Path) -> None:
    """Give the second file the content of the first, cut or repeated to the same size."""
    content, size = first.read_bytes(), second.stat().st_size
    second.write_bytes((content * (1 + size // len(content)))[:size])


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a flipped bit of the first token": (
        lambda data: flip(data / "train-00001.bin", 0),
        rf"train-00001\.bin: the tokens 0 to {BLOCK_BYTES // 2 - 1} \(bytes 0 to {BLOCK_BYTES - 1}\) have the checksum",
    ),
    "a flipped bit in the middle": (
        lambda data: flip(data / "train-00001.bin", BLOCK_BYTES // 2 + 5, bit=7),
        rf"train-00001\.bin: the tokens {BLOCK_BYTES // 2} to {BLOCK_BYTES - 1} \(bytes {BLOCK_BYTES} to ",
    ),
    "an exchanged shard of the same size": (
        lambda data: exchange(data / "train-00000.bin", data / "train-00001.bin"),
        r"train-00001\.bin: the tokens .* The file is damaged, or is another one\. Copy the file again .*or repeat the",
    ),
    "a truncated shard": (
        lambda data: os.truncate(data / "train-00001.bin", 1000),
        r"train-00001\.bin: the index says \d+ bytes, found 1000 bytes\. Copy the file again",
    ),
    "a missing shard": (
        lambda data: (data / "train-00001.bin").unlink(),
        r"train-00001\.bin: the index says \d+ bytes, found no file\. Copy the file again",
    ),
    "damaged checksums": (
        lambda data: flip(data / "train-00001.crc32", 1),
        r"train-00001\.crc32: its content does not match the index\. .*--add-checksums --out /",
    ),
    "missing checksums": (
        lambda data: (data / "train-00001.crc32").unlink(),
        r"train-00001\.crc32: the index says \d+ bytes, found no file\. .*--add-checksums --out /",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damage_of_a_shard_is_named(own_corpus: Path, damage: Callable[[Path], None], message: str) -> None:
    read_all(own_corpus)
    damage(own_corpus)
    with pytest.raises(UserError, match=message):
        read_all(own_corpus)


def test_a_shard_that_is_truncated_after_the_start_is_named(own_corpus: Path) -> None:
    from training.data.batches import Samples, read

    samples = Samples(str(own_corpus), read_index(str(own_corpus)), 32, 0, 64)
    os.truncate(own_corpus / "train-00001.bin", 1000)
    with (
        closing(samples),
        pytest.raises(UserError, match=r"train-00001\.bin: the index says \d+ bytes, found 1000 bytes"),
    ):
        read(samples, np.arange(samples.count))


def test_every_byte_that_is_read_is_verified(own_corpus: Path) -> None:
    """The last token of a sample is the first of the next one, and may be in another block."""
    index = read_index(str(own_corpus))
    shard = index.shards[0]
    # 32 tokens divide a block, so the last token of a sample before a boundary is the first one of the next block.
    tokens = [0, BLOCK_BYTES // 2 - 1, BLOCK_BYTES // 2, (shard.tokens - 1) // 32 * 32]
    for token in tokens:
        flip(own_corpus / shard.name, token, bit=1)
        with pytest.raises(UserError, match=rf"{shard.name}: the tokens \d+ to \d+ "):
            read_all(own_corpus)
        flip(own_corpus / shard.name, token, bit=1)
    read_all(own_corpus)


def test_a_sample_whose_target_is_in_a_damaged_block_is_refused(own_corpus: Path) -> None:
    from training.data.mapped_shard import MappedShard

    index = read_index(str(own_corpus))
    before = BLOCK_BYTES // 2 // 32 - 1
    flip(own_corpus / "train-00000.bin", BLOCK_BYTES // 2)
    mapped = MappedShard(str(own_corpus), index.shards[0], index, 32)
    mapped.read(np.array([before - 1]))
    with pytest.raises(UserError, match=rf"the tokens {BLOCK_BYTES // 2} to"):
        mapped.read(np.array([before]))


def test_a_block_is_verified_once_and_no_other_block_is_read() -> None:
    content = bytes(range(256)) * 40
    checksums = checksums_of(content, 1000)
    damaged = bytearray(content)
    damaged[2500] ^= 1
    blocks = Blocks(memoryview(damaged), checksums, 1000)

    def check(begin: int, end: int) -> tuple[range, str, str] | None:
        return blocks.first_damaged(np.array([begin, begin]), np.array([end, end]))

    assert check(0, 2000) is None
    assert check(3000, len(content)) is None, "the damaged block is not read"
    found = check(1999, 2001)
    assert found
    assert found[0] == range(2000, 3000)
    damaged[2500] ^= 1
    damaged[0] ^= 1
    assert check(0, len(content)) is None, "the first block has been verified already, and the third one is sound"


def plant(data: Path, token: int) -> None:
    """Write a token at position 100 of the third shard."""
    tokens = np.fromfile(data / "train-00002.bin", "<u2")
    tokens[100] = token
    tokens.tofile(data / "train-00002.bin")


ABOVE = (
    r"train-00002\.bin: the token at position 100 is {0}, but the tokens of the vocabulary are below {0}\. .*Copy the "
)


def test_a_token_above_the_vocabulary_is_named(old_corpus: Path) -> None:
    vocabulary = read_index(str(old_corpus)).vocabulary
    plant(old_corpus, vocabulary - 1)
    read_all(old_corpus)
    plant(old_corpus, vocabulary)
    with pytest.raises(UserError, match=ABOVE.format(vocabulary)):
        read_all(old_corpus)


def test_a_token_above_the_vocabulary_that_the_checksums_have_is_named(old_corpus: Path) -> None:
    index = read_index(str(old_corpus))
    plant(old_corpus, index.vocabulary)
    digest = hashlib.sha256((old_corpus / "train-00002.bin").read_bytes()).hexdigest()
    shards = [*index.shards[:2], index.shards[2].model_copy(update={"sha256": digest}), *index.shards[3:]]
    write_index(str(old_corpus), index.model_copy(update={"shards": tuple(shards)}))
    add_checksums(str(old_corpus))
    with pytest.raises(UserError, match=ABOVE.format(index.vocabulary)):
        read_all(old_corpus)


def test_a_copy_in_the_cache_that_is_damaged_is_named(own_corpus: Path, tmp_path: Path, s3: str) -> None:
    from training.data.batches import Samples, read

    for path in own_corpus.iterdir():
        location_files.write(f"{s3}/corpus/{path.name}", path.read_bytes())
    index, cache = read_index(str(own_corpus)), tmp_path / "cache"
    for damaged in (False, True):
        samples = Samples(f"{s3}/corpus", index, 32, 0, 64, Cache(cache))
        with closing(samples):
            if damaged:
                copy = cache / f"{index.shards[1].sha256}.bin"
                flip(copy, 3)
                match = rf"{copy}, the copy of {s3}/corpus/train-00001\.bin: the tokens 0 to .* Delete this copy, and"
                with pytest.raises(UserError, match=match):
                    read(samples, np.arange(samples.count))
            else:
                read(samples, np.arange(samples.count))


@pytest.mark.exhaustive
def test_a_run_ends_before_a_damaged_token_is_trained_on_and_resumes_when_it_is_repaired(
    launch: Launch, own_corpus: Path, job: dict[str, Any], untouched: str
) -> None:
    from training.data.sources import open_sources

    job = job | {"data": job["data"] | {"train": str(own_corpus)}}
    sources = open_sources(Job.model_validate(job))
    # A sample of the sixth step, which is after the first checkpoint. It is a sample of rank 1.
    shard, number = sources.samples.locate(np.array([5 * 8 + 4]))[0, 2:].tolist()
    sources.samples.close()
    path = own_corpus / read_index(str(own_corpus)).shards[shard].name
    sound = path.read_bytes()
    launch(job, 2, "--until-step", "4").finish()
    flip(path, 32 * number + 3)
    damaged = launch(job, 2)
    output, _ = damaged.process.communicate(timeout=1800)
    assert damaged.process.returncode, output
    assert f"{path}: the tokens " in output
    assert not [event for event in damaged.events("step") if event["step"] > 5]
    path.write_bytes(sound)
    repaired = launch(job, 2)
    repaired.finish()
    (end,) = repaired.events("end")[-1:]
    assert end["loss_hex"] == untouched
