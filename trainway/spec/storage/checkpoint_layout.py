"""Distribute checkpoints over prefixes of the bucket, so that S3 can serve all writers at the same time.

Every rank writes one file of a checkpoint, in parts, and all ranks begin together. S3 serves a minimum number of
requests per second for each prefix. The number of prefixes fits the platform's largest job.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainway.spec.capacity.devices import ranks_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform

# Bandwidth and part size of one rank, which are settings of the connector. Its default of 8 MiB per part would be 149
# requests per second from every rank.
# https://github.com/awslabs/s3-connector-for-pytorch/blob/main/s3torchconnector/src/s3torchconnector/_s3client/s3client_config.py
# (read 2026-11-21)
GBPS_EACH = 10
PART_BYTES = 64 * 2**20
# A multipart write has a request at its beginning and one at its end. A read begins with one for the size.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html (read 2026-11-21)
REQUESTS_AROUND_PARTS = 2


@dataclass(frozen=True)
class CheckpointLayout:
    """The number of writers, and the prefixes that they use in turn. Rates are requests per second."""

    writers: int
    prefixes: int

    @property
    def requests_each(self) -> int:
        """Return the maximum requests per second of one writer: the parts it can send, and the requests around them."""
        return math.ceil(GBPS_EACH * 10**9 / 8 / PART_BYTES) + REQUESTS_AROUND_PARTS

    @property
    def writers_on_a_prefix(self) -> int:
        """Return the number of writers on the prefix that has most."""
        return math.ceil(self.writers / self.prefixes)

    @property
    def requests_on_a_prefix(self) -> int:
        """Return the requests per second on the prefix that has most, to write it or to read it with as many ranks."""
        return self.writers_on_a_prefix * self.requests_each


def layout_for(writers: int) -> CheckpointLayout:
    """Return the fewest prefixes on which this number of ranks can write and read at the rates that S3 documents."""
    facts = service_facts().s3
    one = CheckpointLayout(writers=writers, prefixes=1)
    # Round down, because a writer uses only one prefix.
    each = min(facts.writes_per_prefix, facts.reads_per_prefix) // one.requests_each
    return CheckpointLayout(writers=writers, prefixes=max(1, math.ceil(writers / each)))


def checkpoint_layout(platform: Platform, catalogue: Catalogue) -> CheckpointLayout:
    """Return the checkpoint layout for a job on every node that the platform can have."""
    return layout_for(
        sum(group.largest * ranks_of(group, catalogue[group.instance_type]) for group in platform.node_groups)
    )
