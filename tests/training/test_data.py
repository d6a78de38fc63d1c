"""Every sample is seen once an epoch, in an order that depends on the seed and on nothing else."""

from __future__ import annotations

import itertools
import re
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.hypothesis_profiles import examples
from training.config import Job
from training.data.blend import BLOCK, Blend
from training.data.cache import Cache
from training.data.permutation import Permutation
from training.data.shards import read_index, write_index
from training.errors import UserError
from training.hosts import location_files

if TYPE_CHECKING:
    from training.data.batches import Samples


@given(size=st.integers(1, 5000), seed=st.integers(0, 2**32 - 1))
def test_the_permutation_is_a_bijection(size: int, seed: int) -> None:
    assert np.array_equal(np.sort(Permutation(size, seed)(np.arange(size))), np.arange(size))


@given(size=st.integers(2**33, 2**62), start=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
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


def open_samples(directory: Path, sequence_length: int = 32, seed: int = 0, window: int = 64) -> Samples:
    from training.data.batches import Samples

    return Samples(str(directory), read_index(str(directory)), sequence_length, seed, window)


@pytest.mark.parametrize("window", [1, 2, 64])
def test_an_epoch_is_every_sample_once_and_the_next_one_too(corpus_directory: Path, window: int) -> None:
    from training.data.batches import read

    samples = open_samples(corpus_directory, window=window)
    index = read_index(str(corpus_directory))
    assert len(index.shards) > 1
    expected = set()
    for shard in index.shards:
        tokens = np.fromfile(corpus_directory / shard.name, dtype=index.dtype)
        expected |= {tuple(tokens[first : first + 33].tolist()) for first in range(0, len(tokens) - 32, 32)}
    for epoch in (0, 1):
        epoch_read = read(samples, np.arange(samples.count) + epoch * samples.count)
        assert {tuple(row) for row in epoch_read.tolist()} == expected


@pytest.mark.parametrize("world_size", [1, 2, 4, 8])
def test_the_global_batch_is_the_same_for_every_world_size(corpus_directory: Path, world_size: int) -> None:
    from training.data.batches import rank_batches, read

    # Samples have one reader, as in a rank.
    one, *samples = (open_samples(corpus_directory) for _ in range(1 + world_size))
    first = one.count - 12  # so that the second batch has the end of an epoch inside
    ranks = [rank_batches(samples[rank], first, 8, rank, world_size, pin=False) for rank in range(world_size)]
    for step in range(3):
        whole = np.concatenate([next(rank).numpy() for rank in ranks])
        assert np.array_equal(whole, read(one, np.arange(8) + first + 8 * step))
    for rank in ranks:
        rank.close()


def test_a_batch_that_is_kept_stays_as_it_was(corpus_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from training.data.batches import rank_batches, read

    monkeypatch.setattr("training.data.batches.TOKENS_AT_ONCE", 2 * 8 * 33)
    samples = open_samples(corpus_directory)
    with closing(rank_batches(samples, 0, 8, 0, 1, pin=False)) as batches:
        kept = {step: batch for step, batch in enumerate(itertools.islice(batches, 40)) if step % 3 == 0}
    for step, batch in kept.items():
        assert np.array_equal(batch.numpy(), read(samples, np.arange(8) + 8 * step))


def test_a_rank_with_small_batches_reads_few_steps_ahead(
    corpus_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.data.batches import READS_AHEAD, STEPS_AT_ONCE, rank_batches

    samples, read_ahead = open_samples(corpus_directory), list[int]()
    gather = samples.gather

    def counting(some: Any, *rest: Any) -> None:
        read_ahead.append(len(some))
        gather(some, *rest)

    monkeypatch.setattr(samples, "gather", counting)
    with closing(rank_batches(samples, 0, 8, 0, 8, pin=False)) as batches:
        assert len(list(itertools.islice(batches, 3))) == 3
    assert sum(read_ahead) <= 1 + (READS_AHEAD + 1) * STEPS_AT_ONCE


def test_memory_is_lent_again_when_no_view_of_it_is_left() -> None:
    from training.data.buffers import Buffers

    buffers = Buffers((4, 8), np.uint16)
    first = buffers.lend()
    view, place = first.view(2, 2, 8)[1], first.data_ptr()
    del first
    assert buffers.lend().data_ptr() != place
    del view
    assert buffers.lend().data_ptr() == place


def test_a_sequence_longer_than_the_text_is_refused(corpus_directory: Path) -> None:
    with pytest.raises(UserError, match=r"not one sample of data\.sequence_length 1000000"):
        open_samples(corpus_directory, sequence_length=1_000_000)


def test_a_place_without_shards_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"index.json is missing\)\. Make them with `python -m training.prepare"):
        read_index(str(tmp_path))


def test_no_more_than_two_windows_of_shards_are_open(corpus_directory: Path) -> None:
    from training.data.batches import read

    samples = open_samples(corpus_directory, window=1)
    assert len(read_index(str(corpus_directory)).shards) > 2
    opened: set[int] = set()
    for counter in range(0, 2 * samples.count, 16):
        read(samples, np.arange(counter, counter + 1))
        assert len(samples._opened) <= 2
        opened |= samples._opened.keys()
    assert opened == set(range(len(read_index(str(corpus_directory)).shards)))


def test_a_shard_cut_short_is_refused(corpus_directory: Path, tmp_path: Path) -> None:
    from training.data.batches import Samples

    index = read_index(str(corpus_directory))
    (tmp_path / index.shards[0].name).write_bytes(b"\0\0")
    with pytest.raises(UserError, match=rf"the index says {index.shards[0].bytes} bytes, found 2 bytes"):
        Samples(str(tmp_path), index, 32, 0, 64)


@pytest.fixture
def in_s3(corpus_directory: Path, s3: str) -> str:
    """The corpus, in S3."""
    for path in corpus_directory.iterdir():
        location_files.write(f"{s3}/corpus/{path.name}", path.read_bytes())
    return f"{s3}/corpus"


def test_a_shard_in_s3_that_is_not_what_was_prepared_is_refused(
    corpus_directory: Path, tmp_path: Path, in_s3: str
) -> None:
    from training.data.batches import Samples, read

    index = read_index(str(corpus_directory))
    content = (corpus_directory / index.shards[0].name).read_bytes()
    location_files.write(f"{in_s3}/{index.shards[0].name}", content[:-2] + b"\1\1")
    samples = Samples(in_s3, index, 32, 0, 64, Cache(tmp_path))
    with pytest.raises(UserError, match="its content does not match the index"):
        read(samples, np.arange(64))
    samples.close()
    assert not (tmp_path / f"{index.shards[0].sha256}.bin").exists()


def test_a_shard_from_s3_is_fetched_once_and_read_as_from_a_disk(
    corpus_directory: Path, tmp_path: Path, in_s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.data.batches import Samples, read

    index = read_index(str(corpus_directory))
    fetched: list[str] = []
    download = location_files.download

    def counted(source: str, path: Path) -> None:
        fetched.append(source)
        download(source, path)

    monkeypatch.setattr(location_files, "download", counted)
    on_disk = open_samples(corpus_directory)
    for _ in range(2):
        samples = Samples(in_s3, index, 32, 0, 64, Cache(tmp_path))
        assert np.array_equal(read(samples, np.arange(99)), read(on_disk, np.arange(99)))
        samples.close()
    assert sorted(fetched) == [f"{in_s3}/{shard.name}" for shard in index.shards]


def test_the_next_window_is_fetched_while_this_one_is_read(corpus_directory: Path, tmp_path: Path, in_s3: str) -> None:
    from training.data.batches import Samples, read

    index = read_index(str(corpus_directory))
    samples = Samples(in_s3, index, 32, 0, 1, Cache(tmp_path))
    read(samples, np.arange(1))
    for shard in samples._opened.values():
        shard.result(timeout=300)
    samples.close()
    assert len(list(tmp_path.glob("*.bin"))) == 2


def test_the_cache_deletes_what_was_used_longest_ago(corpus_directory: Path, tmp_path: Path, in_s3: str) -> None:
    from training.data.batches import Samples, read

    index = read_index(str(corpus_directory))
    assert len(index.shards) > 2
    two = sum(sorted(shard.bytes for shard in index.shards)[-2:])
    samples = Samples(in_s3, index, 32, 0, 1, Cache(tmp_path, limit_bytes=two))
    on_disk = open_samples(corpus_directory, window=1)
    for counter in range(0, samples.count, 16):
        assert np.array_equal(
            read(samples, np.arange(counter, counter + 1)), read(on_disk, np.arange(counter, counter + 1))
        )
    for shard in samples._opened.values():
        shard.result(timeout=300)
    samples.close()
    assert sum(path.stat().st_size for path in tmp_path.glob("*.bin")) <= two


def test_a_cache_that_cannot_hold_two_windows_is_refused(corpus_directory: Path, tmp_path: Path) -> None:
    from training.data.batches import Samples

    index = read_index(str(corpus_directory))
    with pytest.raises(UserError, match=r"raise data\.cache_gib or lower data\.shuffle_shards"):
        Samples(str(corpus_directory), index, 32, 0, 1, Cache(tmp_path, limit_bytes=index.shards[0].bytes))


@given(
    weights=st.lists(st.floats(0.01, 1), min_size=1, max_size=5), first=st.integers(0, 10**9), seed=st.integers(0, 9)
)
@examples(0.3)
def test_a_blend_has_each_share_of_a_thousand_and_misses_no_sample(weights: list[float], first: int, seed: int) -> None:
    blend = Blend(weights, seed)
    start = first // BLOCK * BLOCK
    sources, own = blend(np.arange(start, start + 2 * BLOCK))
    for source, weight in enumerate(weights):
        counters = own[sources == source]
        assert np.array_equal(counters, np.arange(len(counters)) + counters[0])
        assert abs(len(counters) / (2 * BLOCK) - weight / sum(weights)) <= 1 / BLOCK
    # From the middle it is the same.
    middle, own_middle = blend(np.arange(start + 700, start + 1100))
    assert np.array_equal(middle, sources[700:1100])
    assert np.array_equal(own_middle, own[700:1100])


def test_blended_samples_are_those_of_the_sources_in_their_own_order(corpus_directory: Path) -> None:
    from training.data.batches import Blended, read

    sources = [open_samples(corpus_directory, seed=seed) for seed in (1, 2)]
    blended = read(Blended(sources, [0.75, 0.25], seed=3), np.arange(1000))
    which, own = Blend([0.75, 0.25], 3)(np.arange(1000))
    for source in (0, 1):
        assert np.array_equal(blended[which == source], read(sources[source], own[which == source]))
    assert (which == 1).sum() == 250


def test_the_job_of_the_page_is_a_job() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", (Path(__file__).parents[2] / "docs/data.md").read_text(), re.DOTALL)
    job = Job.model_validate(
        {"name": "page", "model": "8b", "batch": {"global": 64}, "steps": 5000, **yaml.safe_load(text)}
    )
    assert job.data.shares == {"s3:/corpus/web": 0.8, "s3:/corpus/code": 0.2}


def test_sources_of_a_blend_share_a_tokenizer(corpus_directory: Path, tmp_path: Path) -> None:
    from training.data.batches import read
    from training.data.sources import open_sources

    data = {"train": str(corpus_directory), "sequence_length": 32, "blend": {str(tmp_path / "other"): 0.25}}
    job = Job.model_validate({"name": "blend", "model": "tiny", "data": data, "batch": {"global": 8}, "steps": 5})
    shutil.copytree(corpus_directory, tmp_path / "other")
    opened = open_sources(job)
    assert read(opened.samples, np.arange(100)).shape == (100, 33)
    assert opened.identity["shares"] == [0.75, 0.25]
    opened.samples.close()
    index = read_index(str(corpus_directory))
    other = index.model_copy(update={"tokenizer": index.tokenizer.model_copy(update={"sha256": "0" * 64})})
    write_index(str(tmp_path / "other"), other)
    with pytest.raises(UserError, match="made with another tokenizer than"):
        open_sources(job)
