"""How checkpoints are spread over prefixes of the bucket, so that S3 answers all writers at once.

Every rank writes one file of a checkpoint, in parts, and all ranks begin together. S3 answers so many requests a second
for each prefix, at least; the prefixes are as many as the platform's largest job needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainway.spec.derived.devices import ranks_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform

# What one rank is let send, and in pieces of which size: the connector takes both as settings. Its own 8 MiB a piece
# would be 149 requests a second, of every rank.
# https://github.com/awslabs/s3-connector-for-pytorch/blob/main/s3torchconnector/src/s3torchconnector/_s3client/s3client_config.py
# (read 2026-11-21)
GBPS_EACH = 10
PART_BYTES = 64 * 2**20
# A write of several parts begins with one request and ends with another, a read with one that asks how much there is.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html (read 2026-11-21)
REQUESTS_AROUND_PARTS = 2


@dataclass(frozen=True)
class CheckpointLayout:
    """Writers, and the prefixes that they take in turn; the rates are requests a second."""

    writers: int
    prefixes: int

    @property
    def requests_each(self) -> int:
        """The most requests of one writer in a second: the parts it can send in a second, and what is around them."""
        return math.ceil(GBPS_EACH * 10**9 / 8 / PART_BYTES) + REQUESTS_AROUND_PARTS

    @property
    def writers_on_a_prefix(self) -> int:
        """The number of writers on the prefix that has most of them."""
        return math.ceil(self.writers / self.prefixes)

    @property
    def requests_on_a_prefix(self) -> int:
        """The requests in a second on the prefix that has most, to write it, or to read it with as many ranks."""
        return self.writers_on_a_prefix * self.requests_each


def layout_for(writers: int) -> CheckpointLayout:
    """The fewest prefixes on which so many ranks can write, and read, at the rates that S3 documents."""
    facts = service_facts().s3
    one = CheckpointLayout(writers=writers, prefixes=1)
    # Whole writers: a prefix is given the next one or not.
    each = min(facts.writes_per_prefix, facts.reads_per_prefix) // one.requests_each
    return CheckpointLayout(writers=writers, prefixes=max(1, math.ceil(writers / each)))


def checkpoint_layout(platform: Platform, catalogue: Catalogue) -> CheckpointLayout:
    """Return the checkpoint layout for a job on every node that the platform can have."""
    return layout_for(
        sum(group.largest * ranks_of(group, catalogue[group.instance_type]) for group in platform.node_groups)
    )
