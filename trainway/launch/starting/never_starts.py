"""Evidence that a queued run can never have its nodes, for example after a deploy that lowered a guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainway.explain.evidence import Evidence, JobEvent
from trainway.launch.job_file.programs import load_recorded_program
from trainway.launch.platform.hand_off import read_hand_off
from trainway.launch.program.allocation import bound_of
from trainway.launch.program.lost_nodes import demand_of
from trainway.launch.registry.find import platform_of
from trainway.launch.runs.run_directory import read_launch
from trainway.launch.target.known import target_named
from trainway.launch.target.options import options_from
from trainway.launch.target.protocol import Phase
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.problems import SpecError


def never_starts(run: Path) -> Evidence:
    """Return what bounds the nodes of a queued run if it asks for more, by the hand-off of the last deploy.

    Nothing if the run is not queued, can start, is on none of the platform's nodes, or has a platform that cannot be
    asked. `run` is the directory of its launch.json.
    """
    record = read_launch(run)
    target, nodes = target_named(record["target"], cannot="explained"), record.get("nodes")
    if not (nodes and target.orchestrators and target.on_nodes_of_platform):
        return Evidence()
    with suppress(UsageError, SpecError):
        if target.state(record["handle"]).phase is Phase.QUEUED:
            why = why_never(run, record, read_hand_off(platform_of(record)))
            return Evidence(events=(JobEvent("trainway", "NeverStarts", why, "the run"),) if why else ())
    return Evidence()


def why_never(run: Path, record: Mapping[str, Any], hand_off: HandOff) -> str | None:
    """Return why a run can never have its nodes on a platform, with what raises the bound, or None if it can.

    `run` is a directory with the files of the run, and `record` its launch.json. Raises UsageError or SpecError for a
    job file that is not valid.
    """
    target, options, program = target_named(record["target"]), record["options"], load_recorded_program(run)
    demand = demand_of(program, hand_off, options_from(target.options, options.get("target", {}), target.name))
    instance_type = (record.get("nodes") or {}).get("instance_type")
    groups = [
        group
        for group in hand_off.node_groups
        if options.get("group") in (None, group.name) and group.instance_type == instance_type
    ]
    bounds = [bound_of(program, hand_off, group, demand) for group in groups]
    if not bounds or (most := max(bounds, key=lambda bound: bound.nodes)).nodes >= demand.nodes:
        return None
    return f"it asks for {demand.nodes} nodes, and {most.why}. Fix: {most.fix}"
