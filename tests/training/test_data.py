"""Every sample is seen once an epoch, in an order that depends on the seed and on nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training import storage
from training.batches import Samples, rank_batches
from training.errors import UserError
from training.permutation import Permutation
from training.shards import read_index


@given(size=st.integers(1, 5000), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_the_permutation_is_a_bijection(size: int, seed: int) -> None:
    assert np.array_equal(np.sort(Permutation(size, seed)(np.arange(size))), np.arange(size))


@given(size=st.integers(2**33, 2**62), start=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_the_permutation_stays_inside_and_apart_in_sizes_that_fit_no_memory(size: int, start: float, seed: int) -> None:
    positions = min(int(size * start), size - 64) + np.arange(64)
    image = Permutation(size, seed)(positions)
    assert len(set(image.tolist())) == 64
    assert image.min() >= 0
    assert image.max() < size


def test_epochs_are_shuffled_and_shuffled_differently() -> None:
    size = 20_000
    orders = [Permutation(size, (7, epoch))(np.arange(size)) for epoch in (0, 1)]
    assert abs(np.corrcoef(orders[0], orders[1])[0, 1]) < 0.05
    assert abs(np.corrcoef(orders[0], np.arange(size))[0, 1]) < 0.05


def open_samples(directory: Path, sequence_length: int = 32, seed: int = 0) -> Samples:
    return Samples(str(directory), read_index(str(directory)), sequence_length, seed, directory / "unused-cache")


def test_an_epoch_is_every_sample_once_and_the_next_one_too(corpus_directory: Path) -> None:
    samples = open_samples(corpus_directory)
    index = read_index(str(corpus_directory))
    assert len(index.shards) > 1
    expected = set()
    for shard in index.shards:
        tokens = np.fromfile(corpus_directory / shard.name, dtype=index.dtype)
        expected |= {tuple(tokens[first : first + 33].tolist()) for first in range(0, len(tokens) - 32, 32)}
    for epoch in (0, 1):
        read = samples.read(np.arange(samples.count) + epoch * samples.count)
        assert {tuple(row) for row in read.tolist()} == expected


@pytest.mark.parametrize("world_size", [1, 2, 4, 8])
def test_the_global_batch_is_the_same_for_every_world_size(corpus_directory: Path, world_size: int) -> None:
    samples = open_samples(corpus_directory)
    first = samples.count - 12  # so that the second batch has the end of an epoch inside
    ranks = [rank_batches(samples, first, 8, rank, world_size, pin=False) for rank in range(world_size)]
    for step in range(3):
        whole = np.concatenate([next(rank).numpy() for rank in ranks])
        assert np.array_equal(whole, samples.read(np.arange(8) + first + 8 * step))
    for rank in ranks:
        rank.close()


def test_a_sequence_longer_than_the_text_is_refused(corpus_directory: Path) -> None:
    with pytest.raises(UserError, match=r"not one sample of data\.sequence_length 1000000"):
        open_samples(corpus_directory, sequence_length=1_000_000)


def test_a_place_without_shards_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"index.json is missing\)\. Make them with `python -m training.prepare"):
        read_index(str(tmp_path))


def test_a_shard_cut_short_is_refused(corpus_directory: Path, tmp_path: Path) -> None:
    index = read_index(str(corpus_directory))
    (tmp_path / index.shards[0].name).write_bytes(b"\0\0")
    with pytest.raises(UserError, match=rf"the index says {index.shards[0].bytes} bytes, found 2 bytes"):
        Samples(str(tmp_path), index, 32, 0, tmp_path)


def test_a_shard_in_s3_that_is_not_what_was_prepared_is_refused(
    corpus_directory: Path, tmp_path: Path, s3: str
) -> None:
    index = read_index(str(corpus_directory))
    content = (corpus_directory / index.shards[0].name).read_bytes()
    storage.write(f"{s3}/corpus/{index.shards[0].name}", content[:-2] + b"\1\1")
    with pytest.raises(UserError, match="its content is not what the index says"):
        Samples(f"{s3}/corpus", index, 32, 0, tmp_path)
    assert not list(tmp_path.glob("*.bin"))


def test_a_shard_from_s3_is_fetched_once(corpus_directory: Path, tmp_path: Path, s3: str) -> None:
    index = read_index(str(corpus_directory))
    for shard in index.shards:
        storage.write(f"{s3}/corpus/{shard.name}", (corpus_directory / shard.name).read_bytes())
    first = Samples(f"{s3}/corpus", index, 32, 0, tmp_path)
    storage.delete(f"{s3}/corpus", [shard.name for shard in index.shards])
    again = Samples(f"{s3}/corpus", index, 32, 0, tmp_path)
    assert np.array_equal(first.read(np.arange(9)), again.read(np.arange(9)))
