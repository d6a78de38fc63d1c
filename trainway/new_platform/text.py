"""Render the first platform file of a team, with comments."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from trainway.new_platform.wishes import ON_DEMAND, RANGE, SPOT, Wishes, check_region, check_type, check_zone, zones_of
from trainway.spec import strict_yaml
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.problems import Problem, SpecError
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.storage.lustre_clients import speaks_efa


def platform_text(wishes: Wishes) -> str:
    """Return the platform file.

    Raises UsageError for an instance type, a Region, or a zone that does not exist, for a type that AWS does not have
    there, and for every problem that `trainway check` would report.
    """
    check_type(wishes.instance_type)
    check_region(wishes)
    check_zone(wishes)
    text, problems = checked_text(wishes)
    if problems:
        # The file is not there, so its name would help nobody.
        said = str(SpecError(problems)).replace(f"{problems[0].file}:", "of the file that would be written, ")
        raise UsageError(said)
    return text


def checked_text(wishes: Wishes) -> tuple[str, tuple[Problem, ...]]:
    """Return the platform file, and its problems.

    The file system uses EFA if the nodes can and no problem follows from it.
    """
    with_efa = wishes.file_system and speaks_efa(wishes.instance_type, load_catalogue())
    if with_efa:
        text = _text(wishes, efa=True)
        problems = _problems(text)
        if not any(problem.key[:1] == ("storage",) for problem in problems):
            return text, problems
    text = _text(wishes, efa=False)
    return text, _problems(text)


def _problems(text: str) -> tuple[Problem, ...]:
    from trainway.spec.loader import load_platform

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "platform.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            load_platform(file)
        except SpecError as error:
            return tuple(replace(problem, file=file) for problem in error.problems)
    return ()


def _text(wishes: Wishes, *, efa: bool) -> str:
    lines = [
        "# `trainway check` validates this file, and `trainway plan` shows what it becomes.",
        "# `trainway schema` describes every key.",
        f"name: {_scalar(wishes.name)}",
        f"region: {wishes.region}",
        *_zone_lines(wishes),
        *_orchestrator_lines(wishes.orchestrator),
        *_network_lines(wishes),
        "node_groups:",
        "  - name: train",
        f"    instance_type: {wishes.instance_type}",
        f"    count: {wishes.count}",
        *_capacity_lines(wishes),
        *_storage_lines(wishes, efa=efa),
        *_team_lines(wishes),
        *_people_lines(wishes),
    ]
    return "\n".join(lines) + "\n"


def _zone_lines(wishes: Wishes) -> Iterable[str]:
    zones = zones_of(wishes)
    if wishes.zone is None and not wishes.capacity.startswith((ON_DEMAND, SPOT)):
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


def _network_lines(wishes: Wishes) -> Iterable[str]:
    if wishes.existing is not None:
        yield "network:"
        yield f"  cidr: {_scalar(wishes.cidr)} # for the new subnets"
        yield "  # Your VPC as it is now. `trainway adopt` writes this section again."
        written = strict_yaml.dump({"existing": dict(wishes.existing)})
        yield from (f"  {line}" for line in written.splitlines())
    elif wishes.cidr != RANGE:
        yield "network:"
        yield f"  cidr: {_scalar(wishes.cidr)}"


def _capacity_lines(wishes: Wishes) -> Iterable[str]:
    kind, _, identifier = wishes.capacity.partition(":")
    times = f", start: {_scalar(wishes.start)}, end: {_scalar(wishes.end or '')}" if wishes.start else ""
    if wishes.capacity.startswith("arn:"):
        yield f"    capacity: {{training_plan: {_scalar(wishes.capacity)}{times}}}"
    elif identifier:
        yield f"    capacity: {{{_scalar(kind.replace('-', '_'))}: {_scalar(identifier)}{times}}}"
    elif kind == ON_DEMAND:
        # Only managed node groups of EKS scale with the waiting jobs.
        is_scaled = wishes.orchestrator is Orchestrator.EKS
        meaning = "more than count lets the group grow while jobs wait" if is_scaled else "room for so many nodes"
        yield f"    max_count: {wishes.count} # {meaning}"
    else:
        yield f"    capacity: {_scalar(kind)}"


def _storage_lines(wishes: Wishes, *, efa: bool) -> Iterable[str]:
    if not wishes.file_system:
        yield "storage:"
        yield "  lustre: null # no file system: jobs keep data, checkpoints, and the files of runs in the data bucket"
    elif efa:
        yield "storage:"
        yield "  # Over EFA, with GPUDirect Storage. FSx sells it in steps of 9.6 TiB at this throughput."
        yield "  lustre: {capacity_tib: 9.6, throughput_mbps_per_tib: 500, efa: true}"


def _team_lines(wishes: Wishes) -> Iterable[str]:
    if wishes.teams:
        yield "teams:"
        yield "  # docs/teams.md shows how members, priorities, and limits are added."
    for name, nodes in wishes.teams:
        guarantee = f", guarantee: {{{wishes.instance_type}: {nodes}}}" if nodes else ""
        yield f"  - {{name: {_scalar(name)}{guarantee}}}"


def _people_lines(wishes: Wishes) -> Iterable[str]:
    if not wishes.orchestrator.is_kubernetes:
        return
    yield "kubernetes:"
    yield "  # Who administers the cluster. docs/people.md shows how teams and their members are added."
    yield f"  admins: [{_scalar(wishes.admin or '')}]"


def _scalar(value: str) -> str:
    """Return a string as YAML, in quotes unless it is a name that every YAML reader takes for text."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", value) and strict_yaml.dump([value], flow=True) == f"[{value}]\n"
    return value if plain else json.dumps(value)
