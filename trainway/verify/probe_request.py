"""The probe as a launch, which every target renders and submits as it does a training job's.

So the nodes are proved as a job gets them: in its image, with its devices, file system, user and queue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import PurePosixPath

import yaml

from trainway.launch.request import Request
from trainway.launch.sweep import Point
from trainway.parts.job import Job
from trainway.spec.facts.catalogue import Catalogue
from trainway.verify.probe_job import DCGM_LEVEL, MOST_BYTES, probe_command, probe_environment


@dataclass(frozen=True)
class ProbeRequest(Request):
    """A launch of the probe: all-reduces up to `max_bytes`, and dcgmi's diagnostic of `dcgm_level`."""

    max_bytes: int = MOST_BYTES
    dcgm_level: int = DCGM_LEVEL

    @property
    def command(self) -> tuple[str, ...]:
        """What every node runs."""
        return probe_command()

    def environment(self, job_file: PurePosixPath) -> dict[str, str]:
        """What a job is told, and what the probe is told, which works in the run's directory."""
        probe = probe_environment(self.directory, max_bytes=self.max_bytes, dcgm_level=self.dcgm_level)
        return {**super().environment(job_file), **probe}


def probe_point(nodes: int, catalogue: Catalogue, *, team: str | None = None) -> Point:
    """A job that nodes are given to; nothing reads its file. `prepare` (trainway/launch/prepare.py) makes a request."""
    # A batch that the ranks of any type of node divide.
    batch = nodes * math.lcm(*(instance.ranks for instance in catalogue.values()))
    document = {
        "name": "verify",
        "nodes": nodes,
        "model": "tiny",
        "data": {"train": "fsx:/none"},
        "batch": {"global": batch},
        "steps": 1,
        # A probe that fails has found something.
        "life_cycle": {"restarts": 0, "process_restarts": 0},
        **({"team": team} if team else {}),
    }
    return Point(Job.model_validate(document), yaml.safe_dump(document, sort_keys=False), {})


def probe_request(request: Request, *, max_bytes: int = MOST_BYTES, dcgm_level: int = DCGM_LEVEL) -> ProbeRequest:
    """The probe on the nodes of a request for a job."""
    return ProbeRequest(**vars(request), max_bytes=max_bytes, dcgm_level=dcgm_level)
