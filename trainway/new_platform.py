"""The first platform file of a team, from a few answers: commented, and without problems."""

from __future__ import annotations

import difflib
import json
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.offerings import Offerings, load_offerings
from trainway.spec.facts.services import service_facts
from trainway.spec.rules.processors import ARCHITECTURE
from trainway.spec.sections.orchestrator import Orchestrator

_ON_DEMAND, _SPOT = "on-demand", "spot"


@dataclass(frozen=True)
class Wishes:
    """What a platform is for."""

    name: str
    instance_type: str
    count: int
    orchestrator: Orchestrator
    region: str
    capacity: str
    """`on-demand`, `spot`, `reservation:ID`, `capacity-block:ID`, or the ARN of a training plan."""
    admin: str | None
    """ARN of the role that administers the cluster. Slurm needs none."""
    file_system: bool = True
    """Whether the platform has an FSx for Lustre file system. HyperPod requires one."""


def platform_text(wishes: Wishes) -> str:
    """Return the platform file.

    Raises UsageError for an instance type or a Region that does not exist, for a type that AWS does not have there, and
    for every problem that `trainway check` would report.
    """
    offerings = load_offerings()
    check_type(wishes.instance_type)
    _check_region(wishes, offerings)
    zones = _zones(wishes, offerings)
    text = _text(wishes, zones)
    _check(text)
    return text


def regions_for(instance_type: str, orchestrator: Orchestrator, *, file_system: bool = True) -> list[str]:
    """Return the Regions in which such a platform can be, those with the most zones of the type first.

    A platform with a `file_system` can only be where FSx for Lustre has the default type of file systems.
    """
    offerings = load_offerings()
    lustre, hyperpod = service_facts().lustre, service_facts().hyperpod
    if orchestrator.is_hyperpod and load_catalogue()[instance_type].hyperpod_name is None:
        return []
    found = [
        region
        for region in offerings.regions_with(instance_type)
        if (not file_system or region in lustre.regions)
        and (orchestrator is Orchestrator.EKS or region in hyperpod.regions)
    ]
    return sorted(found, key=lambda region: (-len(offerings.zones_with(instance_type, region)), region))


def capacities_for(instance_type: str, orchestrator: Orchestrator) -> list[str]:
    """Return the ways to buy a type with an orchestrator, as `Wishes.capacity` begins."""
    kinds = load_catalogue()[instance_type].capacity_kinds
    if orchestrator is Orchestrator.EKS:
        return [kind for kind in (_ON_DEMAND, _SPOT, "reservation", "capacity-block") if kind in kinds]
    return [kind for kind in (_ON_DEMAND, "training-plan") if kind in kinds]


def check_type(name: str) -> None:
    """Raise UsageError if the catalogue does not have an instance type, or if no platform can have it."""
    catalogue = load_catalogue()
    if name in catalogue and catalogue[name].architecture != ARCHITECTURE:
        why = f"its processors are {catalogue[name].architecture}, and the images are built for {ARCHITECTURE}"
        raise usage_error(f"--type {name}", why=why, fix="name another type; `trainway instances` lists them")
    if why_not := catalogue.why_left_out(name):
        fix = "name another type; `trainway instances` lists them"
        raise usage_error(f"--type {name}", why=f"the platform does not support it: {why_not}", fix=fix)
    if name not in catalogue:
        near = catalogue.suggest(name)
        fix = f"did you mean {' or '.join(near)}?" if near else "`trainway instances` lists the types"
        raise usage_error(f"--type {name}", why="the catalogue has no such instance type", fix=fix)


def _check_region(wishes: Wishes, offerings: Offerings) -> None:
    region, name = wishes.region, wishes.instance_type
    if region not in offerings.zones:
        near = difflib.get_close_matches(region, list(offerings.zones), n=3)
        fix = f"did you mean {' or '.join(near)}?" if near else "write it as in us-west-2"
        raise usage_error(f"--region {region}", why="AWS has no Region of this name", fix=fix)
    elsewhere = regions_for(name, wishes.orchestrator, file_system=wishes.file_system)
    if region not in elsewhere and offerings.zones[region]:
        fix = f"use {', '.join(elsewhere)}" if elsewhere else f"name another type than {name}"
        needed = f"{name}, {wishes.orchestrator.value}, and FSx for Lustre"
        why = f"{needed if wishes.file_system else f'{name} and {wishes.orchestrator.value}'} are not all there"
        if wishes.file_system and region in regions_for(name, Orchestrator.EKS, file_system=False):
            fix += ", or --orchestrator eks with --no-file-system"
        raise usage_error(f"--region {region}", why=why, fix=fix)


def _zones(wishes: Wishes, offerings: Offerings) -> list[str]:
    """Return the zone of the nodes and, for EKS, another one. An EKS control plane is in two."""
    refused = service_facts().eks.refused_zones if wishes.orchestrator.is_kubernetes else ()
    usable = [zone for zone in offerings.zones[wishes.region] if zone not in refused]
    with_type = [zone for zone in offerings.zones_with(wishes.instance_type, wishes.region) if zone in usable]
    if not with_type or (wishes.orchestrator.is_kubernetes and len(usable) < service_facts().eks.control_plane_zones):
        raise usage_error(
            f"--region {wishes.region}",
            why="the zones that this platform needs are not known there",
            fix="use another Region, or write the file by hand and name its zones",
        )
    first = with_type[0]
    others = [zone for zone in usable if zone != first]
    further = service_facts().eks.control_plane_zones - 1 if wishes.orchestrator.is_kubernetes else 0
    return [first, *others[:further]]


def _text(wishes: Wishes, zones: list[str]) -> str:
    lines = [
        "# `trainway check` validates this file, and `trainway plan` shows what it becomes.",
        "# `trainway schema` describes every key.",
        f"name: {_scalar(wishes.name)}",
        f"region: {wishes.region}",
        *_zone_lines(wishes, zones),
        *_orchestrator_lines(wishes.orchestrator),
        "node_groups:",
        "  - name: train",
        f"    instance_type: {wishes.instance_type}",
        f"    count: {wishes.count}",
        *_capacity_lines(wishes),
        *_storage_lines(wishes),
        *_people_lines(wishes),
    ]
    return "\n".join(lines) + "\n"


def _zone_lines(wishes: Wishes, zones: list[str]) -> Iterable[str]:
    if not wishes.capacity.startswith((_ON_DEMAND, _SPOT)):
        yield "# The first zone must be that of what you have reserved."
    elif len(zones) > 1:
        yield "# The nodes are in the first zone. An EKS control plane needs a second one."
    yield f"zones: [{', '.join(zones)}]"


def _orchestrator_lines(orchestrator: Orchestrator) -> Iterable[str]:
    said = {
        Orchestrator.EKS: "Kubernetes with EKS's own nodes",
        Orchestrator.HYPERPOD_EKS: "Kubernetes with HyperPod's nodes, which HyperPod tests and replaces",
        Orchestrator.HYPERPOD_SLURM: "Slurm with HyperPod's nodes, which HyperPod tests and replaces",
    }
    yield f"orchestrator: {orchestrator.value} # {said[orchestrator]}"


def _capacity_lines(wishes: Wishes) -> Iterable[str]:
    kind, _, identifier = wishes.capacity.partition(":")
    if wishes.capacity.startswith("arn:"):
        yield f"    capacity: {{training_plan: {_scalar(wishes.capacity)}}}"
    elif identifier:
        yield f"    capacity: {{{_scalar(kind.replace('-', '_'))}: {_scalar(identifier)}}}"
    elif kind == _ON_DEMAND:
        # Only managed node groups of EKS scale with the waiting jobs.
        is_scaled = wishes.orchestrator is Orchestrator.EKS
        meaning = "more than count lets the group grow while jobs wait" if is_scaled else "room for so many nodes"
        yield f"    max_count: {wishes.count} # {meaning}"
    else:
        yield f"    capacity: {_scalar(kind)}"


def _storage_lines(wishes: Wishes) -> Iterable[str]:
    if not wishes.file_system:
        yield "storage:"
        yield "  lustre: null # no file system: jobs keep data, checkpoints, and the files of runs in the data bucket"


def _people_lines(wishes: Wishes) -> Iterable[str]:
    if not wishes.orchestrator.is_kubernetes:
        return
    yield "kubernetes:"
    yield "  # Who administers the cluster. docs/people.md shows how teams and their members are added."
    yield f"  admins: [{_scalar(wishes.admin or '')}]"


def _scalar(value: str) -> str:
    """Return a string as YAML, in quotes if it has more than a name has."""
    return value if re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", value) else json.dumps(value)


def _check(text: str) -> None:
    """Raise UsageError with every problem that `trainway check` has with a text."""
    from trainway.spec.loader import load_platform

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "platform.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            load_platform(file)
        except UsageError as error:
            raise UsageError(str(error).replace(f"{file}:", "of the file that would be written, ")) from None
