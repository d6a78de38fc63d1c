"""Held-out text is not trained on, its loss is the same on any number of ranks, and looking at it changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training.config import Job
from training.config.presets import PRESETS
from training.data.shards import read_index
from training.errors import UserError


@pytest.fixture
def held_out_job(job: dict[str, Any]) -> dict[str, Any]:
    """The job with one shard held out, of which some samples are looked at after every second step."""
    return job | {
        "evaluation": {"shards": 1, "every": 2, "samples": 8},
        "checkpoint": {"every": 100, **job["checkpoint"]},
    }


def test_samples_of_the_held_out_shards_are_not_trained_on(
    held_out_job: dict[str, Any], corpus_directory: Path
) -> None:
    from training.data.batches import read
    from training.data.sources import open_sources

    data = open_sources(Job.model_validate(held_out_job))
    index = read_index(str(corpus_directory))
    held_out = np.fromfile(corpus_directory / index.shards[-1].name, dtype=index.dtype)
    assert data.held_out
    expected = {tuple(held_out[first : first + 33]) for first in range(0, len(held_out) - 32, 32)}
    assert {tuple(row) for row in read(data.held_out, np.arange(data.held_out.count))} == expected
    trained = {tuple(row) for row in read(data.samples, np.arange(sum(s.tokens // 32 for s in index.shards)))}
    # Two shards may have the same text somewhere, but not in many samples.
    assert len(trained & expected) < 0.01 * len(expected)


def test_holding_out_everything_is_refused(held_out_job: dict[str, Any]) -> None:
    from training.data.sources import open_sources

    held_out_job["evaluation"]["shards"] = 100
    with pytest.raises(UserError, match="leaves none to train on; hold out fewer"):
        open_sources(Job.model_validate(held_out_job))


@pytest.mark.usefixtures("one_rank")
def test_the_loss_is_the_mean_over_all_tokens_of_the_samples(held_out_job: dict[str, Any]) -> None:
    import torch
    import torch.nn.functional as F

    from tests.training.built_model import built_model
    from training.data.batches import read
    from training.data.sources import open_sources
    from training.evaluation import evaluate

    job = Job.model_validate(held_out_job)
    data = open_sources(job)
    assert data.held_out
    world, local = built_model(job, data.index.vocabulary, data.index.end_of_text)
    tokens = torch.from_numpy(read(data.held_out, np.arange(8)))
    with torch.no_grad():
        logits = local.model(tokens[:, :-1], local.rotary)
    expected = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()
    for micro in (1, 4, 8):
        loss = evaluate(local, world, data.held_out, 8, micro)
        assert loss == pytest.approx(expected, rel=1e-6)


def test_masked_documents_are_learned_as_if_each_were_alone() -> None:
    import torch

    from training.data.documents import document_starts
    from training.model.decoder import Decoder, initialize, rotary_cache

    end = 0
    first, second = torch.tensor([5, 6, 7, end]), torch.tensor([9, 8, 7, 6, 5, end])
    packed = torch.cat((first, second))[None]
    documents = document_starts(packed, end)
    assert documents.tolist() == [[0, 4]]
    model = Decoder(PRESETS["tiny"], 300)
    initialize(model, 0)
    rotary = rotary_cache(PRESETS["tiny"], 10)
    with torch.no_grad():
        together = model(packed, rotary, documents=documents)
        unmasked = model(packed, rotary)
        alone = torch.cat([model(part[None], rotary[:, : len(part)]) for part in (first, second)], 1)
    assert torch.allclose(together, alone, atol=1e-5)
    assert not torch.allclose(unmasked, alone, atol=1e-3)


@pytest.mark.exhaustive
def test_evaluation_is_the_same_on_two_ranks_and_changes_no_step(launch: Any, held_out_job: dict[str, Any]) -> None:
    runs: list[Any] = []
    for processes, every, micro, pp in ((1, 2, 4, 1), (2, 2, 2, 1), (2, 100, 2, 1), (2, 2, 2, 2)):
        change = {
            "steps": 4,
            "schedule": {"shape": "wsd", "decay_steps": 2},
            "optimizer": {"name": "muon", "learning_rate": 0.002},
            "batch": {"global": 8, "micro": micro},
            "parallel": {"pp": pp},
            "variant": {"tied": False},
            "data": held_out_job["data"] | {"mask_documents": True, "shuffle_shards": 2},
            "evaluation": held_out_job["evaluation"] | {"every": every},
            "checkpoint": {"every": 100, "location": held_out_job["checkpoint"]["location"] + f"-{len(runs)}"},
        }
        run = launch(held_out_job | change, processes, "--profile", name=f"run-{len(runs)}")
        run.finish()
        runs.append(run)
    one, two, seldom, pipeline = ([event["loss"] for event in run.events("evaluation")] for run in runs)
    assert len(one) == 2
    assert one == pytest.approx(two, rel=1e-5)
    assert one == pytest.approx(pipeline, rel=1e-5)
    assert one[1] < one[0]
    assert seldom == two[1:]
    steps = [[event["loss_hex"] for event in run.events("step")] for run in runs]
    assert steps[1] == steps[2]
