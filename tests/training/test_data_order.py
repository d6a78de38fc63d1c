"""The order of samples is the same in every version of the code, or its version number has changed.

The vectors below were computed once. If a test fails, either take the change of the order back, or raise ORDER_VERSION
and write the new vectors down.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from training.config import Job
from training.data.blend import Blend
from training.data.permutation import ORDER_VERSION, Permutation
from training.data.shards import File, Index, Shard

if TYPE_CHECKING:
    from training.data.batches import Samples

SHARD_TOKENS = (330, 65, 1000, 200, 33)


def digest(numbers: NDArray[np.int64]) -> str:
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype="<i8").tobytes()).hexdigest()[:16]


def samples_of(directory: Path, seed: int, window: int) -> Samples:
    """Five shards of different lengths, whose tokens nobody reads."""
    from training.data.batches import Samples

    shards = []
    for number, tokens in enumerate(SHARD_TOKENS):
        name = f"shard-{number}.bin"
        (directory / name).write_bytes(bytes(2 * tokens))
        shards.append(Shard(name=name, sha256="0" * 64, bytes=2 * tokens, tokens=tokens, documents=1))
    index = Index(
        dtype="uint16",
        vocabulary=300,
        end_of_text=0,
        tokenizer=File(name="tokenizer.json", sha256="0" * 64, bytes=1),
        recipe="",
        source="",
        shards=tuple(shards),
    )
    return Samples(str(directory), index, 32, seed, window)


def test_the_vectors_are_of_this_version_of_the_order() -> None:
    assert ORDER_VERSION == 1


def test_the_permutation_is_the_one_that_was_written_down() -> None:
    assert Permutation(10, 0)(np.arange(10)).tolist() == [5, 1, 7, 4, 9, 0, 2, 3, 8, 6]
    assert Permutation(1000, (7, 1))(np.arange(0, 500, 100)).tolist() == [901, 500, 259, 819, 169]
    assert Permutation(2**40 + 3, 42)(np.arange(2) * 2**38).tolist() == [710417808226, 929973381509]
    assert digest(Permutation(100_000, (1, 2, 3))(np.arange(100_000))) == "a42571121d4bbd4c"


def test_the_blend_is_the_one_that_was_written_down() -> None:
    sources, own = Blend([0.5, 0.3, 0.2], 3)(np.arange(12))
    assert sources.tolist() == [2, 1, 0, 2, 1, 0, 0, 1, 0, 1, 0, 0]
    assert own.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 5]
    assert [digest(each) for each in Blend([1, 2, 7], 11)(np.arange(5000))] == ["09c2373276c1d911", "5d4a57b5f7477846"]


def test_the_samples_come_in_the_order_that_was_written_down(tmp_path: Path) -> None:
    places = samples_of(tmp_path, seed=5, window=2).locate(np.arange(150))
    assert places[:3].tolist() == [[0, 0, 2, 14], [0, 0, 2, 24], [0, 0, 2, 13]]
    assert digest(places) == "6a511e44e30215be"


def test_blended_samples_come_in_the_order_that_was_written_down(tmp_path: Path) -> None:
    from training.data.batches import Blended

    sources = [samples_of(tmp_path, seed=5, window=2), samples_of(tmp_path, seed=5, window=64)]
    assert digest(Blended(sources, [0.75, 0.25], seed=5).locate(np.arange(2000))) == "da887020ce4be2cd"


def test_another_version_of_the_order_is_another_run(job: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    from training.data.sources import open_sources

    before = open_sources(Job.model_validate(job)).identity
    monkeypatch.setattr("training.data.sources.ORDER_VERSION", ORDER_VERSION + 1)
    assert open_sources(Job.model_validate(job)).identity != before
