"""The probe as a launch, which every target renders and submits like a training job.

The nodes are therefore verified as a job gets them: with its image, devices, file system, user, and queue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import yaml

from trainway.launch.job_file.sweep import Point
from trainway.launch.program.program import Program, RunLifeCycle
from trainway.launch.program.request import Request
from trainway.verify.probe_job import DCGM_LEVEL, MOST_BYTES, probe_command, probe_environment

# A failure of the probe is a finding, so the probe is not restarted.
_NO_RESTARTS = RunLifeCycle(restarts=0, process_restarts=0, stated=frozenset({"restarts", "process_restarts"}))


@dataclass(frozen=True)
class ProbeRequest(Request):
    """A launch of the probe: all-reduces up to `max_bytes`, and dcgmi's diagnostic of `dcgm_level`."""

    max_bytes: int = MOST_BYTES
    dcgm_level: int = DCGM_LEVEL


def probe_point(nodes: int, *, team: str | None = None, command: tuple[str, ...] | None = None) -> Point:
    """Return the request of the probe, or of another program of `trainway verify`, for a number of nodes.

    `allocated_requests` of trainway/launch/starting/prepare.py makes its request.
    """
    # No program reads the file. It documents the run.
    text = yaml.safe_dump({"name": "verify", "nodes": nodes, **({"team": team} if team else {})}, sort_keys=False)
    program = Program(
        name="verify", text=text, nodes=nodes, team=team, life_cycle=_NO_RESTARTS, command=command or probe_command()
    )
    return Point(program, {})


def probe_request(request: Request, *, max_bytes: int = MOST_BYTES, dcgm_level: int = DCGM_LEVEL) -> ProbeRequest:
    """Return the probe on the nodes of a request for it. It works in the run's directory."""
    environment = probe_environment(request.directory, max_bytes=max_bytes, dcgm_level=dcgm_level)
    program = replace(request.program, environment=environment)
    return ProbeRequest(**{**vars(request), "program": program}, max_bytes=max_bytes, dcgm_level=dcgm_level)
