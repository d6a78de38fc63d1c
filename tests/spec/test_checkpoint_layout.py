"""Checkpoints are spread over as many prefixes as S3's documented rates ask for."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from tests.synthesis import ROOT
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.loader import load_platform
from trainway.spec.storage.checkpoint_layout import GBPS_EACH, PART_BYTES, checkpoint_layout, layout_for


@pytest.mark.parametrize("writers", [1, 8, 166, 167, 1000, 8192, 100_000])
def test_no_prefix_gets_more_requests_than_s3_documents(writers: int) -> None:
    """Placed as the job places them, each rank sending what its bandwidth holds, and the ends of a write at once."""
    from s3torchconnector.dcp.s3_prefix_strategy import RoundRobinPrefixStrategy

    layout, facts = layout_for(writers), service_facts().s3
    place = RoundRobinPrefixStrategy([f"p{number:03d}" for number in range(layout.prefixes)])
    ranks = Counter(place(rank).partition("/")[0] for rank in range(writers))
    parts_a_second = math.ceil(GBPS_EACH * 10**9 / (8 * PART_BYTES))
    busiest = max(ranks.values()) * (parts_a_second + 2)
    assert busiest == layout.requests_on_a_prefix
    assert busiest <= facts.writes_per_prefix
    assert busiest <= facts.reads_per_prefix


def test_8192_ranks_need_many_prefixes_and_one_node_needs_one() -> None:
    assert layout_for(8192).prefixes == 50
    assert layout_for(8).prefixes == 1
    fewer = layout_for(8192).prefixes - 1
    assert math.ceil(8192 / fewer) * layout_for(8192).requests_each > service_facts().s3.writes_per_prefix


def test_writers_are_the_ranks_of_all_nodes_that_there_can_be() -> None:
    platform = load_platform(ROOT / "examples" / "hyperpod-eks-p5.yaml")
    assert checkpoint_layout(platform, load_catalogue()).writers == 64 * 8 + 20
