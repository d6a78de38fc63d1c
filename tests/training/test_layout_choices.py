"""Proposed layouts fit, divide the job, and are ranked by what each kind of work and communication costs."""

from __future__ import annotations

from typing import Any

import pytest

from training.config import Job, footprint, layout_problems
from training.config.arithmetic import flop_per_token
from training.config.footprint import VOCABULARY
from training.config.layout_choices import SHARE_OF_PEAK, NodeRates, layout_choices, step_seconds
from training.config.presets import PRESETS, shape_of

NODE = NodeRates(gpus=8, flops=1e15, between_gpus=450e9, network=400e9)
GIB = 2**30


def job_with(**changes: Any) -> Job:
    job = {
        "name": "x",
        "model": "8b",
        "data": {"train": "fsx:/x", "sequence_length": 8192},
        "batch": {"global": 64, "micro": 1},
        "steps": 10,
        **changes,
    }
    return Job.model_validate(job)


def test_a_layout_that_only_computes_takes_its_arithmetic_over_the_assumed_rate() -> None:
    work = 64 * 8192 * flop_per_token(PRESETS["8b"], VOCABULARY, 8192, causal=True)
    assert step_seconds(job_with(), 8, NODE) == pytest.approx(work / (8 * 1e15 * SHARE_OF_PEAK))
    full = job_with(memory={"activation_checkpointing": "full"})
    assert step_seconds(full, 8, NODE) == pytest.approx(4 / 3 * step_seconds(job_with(), 8, NODE))


def test_a_pipeline_waits_while_it_fills() -> None:
    deep = job_with(parallel={"pp": 4})
    # Eight GPUs are two copies of four stages, each with 32 micro-batches.
    assert step_seconds(deep, 8, NODE) == pytest.approx(step_seconds(job_with(), 8, NODE) * (1 + 3 / 32))


def test_gathers_over_a_slow_network_take_longer_than_the_computation() -> None:
    slow = NodeRates(gpus=8, flops=1e15, between_gpus=450e9, network=10e9)
    assert step_seconds(job_with(), 16, slow) > 2 * step_seconds(job_with(), 16, NODE)
    # With a copy of the weights on each node, only gradients cross the network, once a step.
    replicated = job_with(parallel={"dp_replicate": 2})
    assert step_seconds(replicated, 16, slow) < step_seconds(job_with(), 16, slow)
    numbers = 8.03e9
    crossing = 8 * 2 * 4 * numbers / 8 / 2 / slow.network
    computing = step_seconds(job_with(), 16, NODE)
    assert step_seconds(replicated, 16, slow) == pytest.approx(computing + crossing, rel=0.01)


def test_tensor_parallelism_costs_the_traffic_of_activations() -> None:
    # Eight times in each of 32 layers, half of 8,192 tokens of 4,096 numbers in bf16; 16 micro-batches a rank.
    traffic = 16 * 32 * 8 * 8192 * 4096 * 2 / 2 / 450e9
    divided = step_seconds(job_with(parallel={"tp": 2}), 8, NODE)
    assert divided == pytest.approx(step_seconds(job_with(), 8, NODE) + traffic)


def test_what_is_proposed_fits_divides_and_is_sorted() -> None:
    job, limit = job_with(variant={"layers": 8}), 20 * GIB
    found = layout_choices(job, 16, NODE, limit)
    assert [each.seconds for each in found] == sorted(each.seconds for each in found)
    for choice in (*found[:5], *found[-5:]):
        document = job.model_dump(by_alias=True, exclude_unset=True)
        proposed = Job.model_validate(
            {**document, **choice.changes, "batch": {"global": 64, **choice.changes["batch"]}}
        )
        assert proposed.tokens_per_step == job.tokens_per_step
        assert footprint(proposed, 16).total == choice.needed <= limit
        assert step_seconds(proposed, 16, NODE) == choice.seconds
    everything = layout_choices(job, 16, NODE, 10**15)
    assert len(everything) > len(found)
    assert everything[0].seconds <= found[0].seconds
    assert layout_choices(job, 16, NODE, GIB) == []


def test_heads_that_do_not_divide_are_not_proposed() -> None:
    odd = job_with(variant={"heads": 6, "key_value_heads": 3, "hidden": 768})
    assert {each.changes["parallel"]["tp"] for each in layout_choices(odd, 8, NODE, 10**15)} == {1}


def test_the_job_accepts_every_layout_that_is_proposed() -> None:
    job = job_with(parallel={"cp": 2, "cp_method": "all-to-all"}, variant={"heads": 32, "key_value_heads": 4})
    found = layout_choices(job, 8, NODE, 10**15)
    assert {each.changes["parallel"]["tp"] for each in found} == {1, 2}, "4 key and value heads are 1 per rank of tp 4"
    for choice in found:
        document = job.model_dump(by_alias=True, exclude_unset=True)
        document |= {section: {**document.get(section, {}), **keys} for section, keys in choice.changes.items()}
        proposed = Job.model_validate(document)
        assert list(layout_problems(shape_of(job.model, job.variant), VOCABULARY, proposed, proposed.layout(8))) == []
