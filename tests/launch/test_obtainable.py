"""A job that can never have its nodes is refused with the key that bounds them, and no other job is.

Each row is one combination of sizes, autoscaling, capacity, quota, and queue.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.launch.kubernetes.platforms import hand_off_of
from tests.launch.kubernetes.queue_admission import admitted_group
from tests.manifests.platforms import CATALOGUE, platform_of
from trainway.launch.job_file.programs import program_of
from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.program.allocation import Allocation, allocate
from trainway.launch.program.lost_nodes import demand_of
from trainway.launch.program.program import Program
from trainway.launch.program.request import Request
from trainway.launch.slurm.options import SlurmOptions
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.jobs.obtainable import completed
from trainway.spec.platform import Platform

Json = dict[str, Any]
P5, CPU = "p5.48xlarge", "m7i.8xlarge"
BLOCK = {"capacity_block": "cr-0fedcba9876543210"}
PLAN = {"training_plan": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/a"}
SMALL: Json = {"name": "small", "guarantee": {P5: 2}, "borrow": False}
LARGE: Json = {"name": "large", "guarantee": {P5: 2}}
GUESTS: Json = {"name": "guests", "borrow": False}
TEAMS = [SMALL, LARGE, GUESTS]
KAI: Json = {"kubernetes": {"queues": "kai"}}
RUN_AI: Json = {
    "kubernetes": {
        "gpu_devices": "operator",
        "run_ai": {"control_plane": "https://example.run.ai", "secret": "run-ai"},
    }
}
NOBODY: Json = {"kubernetes": {"queues": "none"}}
HYPERPOD: Json = {"orchestrator": "hyperpod-eks"}
SCALED: Json = {"orchestrator": "hyperpod-eks", "hyperpod": {"autoscaling": True}}
SLURM: Json = {"orchestrator": "hyperpod-slurm"}
NO_BORROW = "teams[0].borrow is false"


def group(count: int, most: int | None = None, name: str = "train", type_: str = P5, **more: Any) -> dict[str, Any]:
    return {"name": name, "instance_type": type_, "count": count, "max_count": most, **more}


def platform(groups: list[dict[str, Any]], teams: list[dict[str, Any]], **more: Any) -> Platform:
    return platform_of(node_groups=groups, teams=teams, **more)


def program(nodes: int, team: str | None) -> Program:
    job = {
        "name": "job",
        "nodes": nodes,
        **({"team": team} if team else {}),
        "run": {"command": ["python", "train.py"]},
    }
    return program_of(job, yaml.safe_dump(job))


TWO = [group(2, name="first"), group(4, name="second")]
SIX: Json = {"name": "small", "guarantee": {P5: 6}, "borrow": False}
CASES: dict[str, tuple[Platform, int, str | None, dict[str, Any], list[str] | None]] = {
    "kueue: beyond a guarantee": (
        platform([group(8)], TEAMS),
        4,
        "small",
        {},
        [
            "job asks for 4 nodes",
            "the team small can have 2 nodes of train: it is guaranteed 2 × p5.48xlarge (teams[0].guarantee)",
            NO_BORROW,
            "lower `nodes` to 2, or raise teams[0].guarantee, or set teams[0].borrow to true, and deploy",
        ],
    ),
    "kueue: within a guarantee": (platform([group(8)], TEAMS), 2, "small", {}, None),
    "kueue: borrows all": (platform([group(8)], TEAMS), 8, "large", {}, None),
    "kueue: more than there is": (platform([group(8)], TEAMS), 9, "large", {}, ["train, has at most 8"]),
    "kueue: guaranteed nothing": (platform([group(8)], TEAMS), 1, "guests", {}, ["0 nodes of train", "no node"]),
    "kueue: scales": (platform([group(0, 16)], TEAMS), 16, "large", {}, None),
    "kueue: scales, and a guarantee": (platform([group(0, 16)], TEAMS), 3, "small", {}, [NO_BORROW]),
    "kueue: does not scale": (
        platform([group(4, 16)], TEAMS, kubernetes={"autoscaling": False}),
        5,
        "large",
        {},
        ["train has 4 nodes (node_groups[0].count)", "max_count of 16", "kubernetes.autoscaling is false"],
    ),
    "kueue: does not have to scale": (
        platform([group(4, 16)], TEAMS, kubernetes={"autoscaling": False}),
        4,
        "large",
        {},
        None,
    ),
    "kueue: a Capacity Block": (platform([group(2, 8, capacity=BLOCK)], TEAMS), 3, "large", {}, ["Capacity Block"]),
    "kueue: a reservation scales": (
        platform([group(2, 8, capacity={"reservation": "cr-0123456789abcdef0"})], TEAMS),
        8,
        "large",
        {},
        None,
    ),
    "kueue: a guarantee in two groups": (platform(TWO, [SIX]), 4, "small", {}, None),
    "kueue: one job in two groups": (platform(TWO, [SIX]), 5, "small", {}, ["second, has at most 4"]),
    "kueue: a guarantee that is split": (
        platform([group(2, name="first"), group(8, name="second")], [SIX]),
        5,
        "small",
        {},
        ["can have 4 nodes of second: it is guaranteed 6", NO_BORROW],
    ),
    "kueue: a named group": (platform(TWO, [SIX]), 3, "small", {"group": "first"}, ["first of", "has at most 2"]),
    # A pod requests about half of the CPUs of a node without accelerators, so the quota of 2 nodes is one of 3 pods.
    "kueue: processors": (
        platform([group(8, type_=CPU)], [{"name": "small", "guarantee": {CPU: 2}, "borrow": False}]),
        3,
        "small",
        {},
        None,
    ),
    "kueue: too many processors": (
        platform([group(8, type_=CPU)], [{"name": "small", "guarantee": {CPU: 2}, "borrow": False}]),
        4,
        "small",
        {},
        ["3 nodes of train", NO_BORROW],
    ),
    "kueue: spare nodes": (
        platform([group(8)], TEAMS),
        2,
        "small",
        {"spare_nodes": 1},
        ["asks for 3 nodes, 1 of them spare", NO_BORROW],
    ),
    "kueue: a team without a quota for fewer nodes": (
        platform([group(8)], TEAMS),
        4,
        "small",
        {"min_nodes": 2},
        [NO_BORROW],
    ),
    "kai: beyond a guarantee": (platform([group(8)], TEAMS, **KAI), 3, "small", {}, ["small can have 2", NO_BORROW]),
    "kai: within a guarantee": (platform([group(8)], TEAMS, **KAI), 2, "small", {}, None),
    "kai: counts all groups together": (platform(TWO, [{**SIX, "guarantee": {P5: 3}}], **KAI), 3, "small", {}, None),
    "kai: starts with fewer nodes": (platform([group(8)], TEAMS, **KAI), 4, "small", {"min_nodes": 2}, None),
    "run-ai: beyond a guarantee": (platform([group(8)], TEAMS, **RUN_AI), 4, "small", {}, [NO_BORROW]),
    "run-ai: borrows": (platform([group(8)], TEAMS, **RUN_AI), 8, "large", {}, None),
    "task governance: beyond a guarantee": (platform([group(8)], TEAMS, **HYPERPOD), 4, "small", {}, [NO_BORROW]),
    "task governance: within a guarantee": (platform([group(8)], TEAMS, **HYPERPOD), 2, "small", {}, None),
    "task governance: several types": (
        platform([group(8, name="any", or_types=["p5e.48xlarge"])], [GUESTS, {"name": "large"}], **HYPERPOD),
        1,
        "guests",
        {},
        ["0 nodes of any", NO_BORROW],
    ),
    "hyperpod: nothing adds nodes": (
        platform([group(4, 64, capacity=PLAN)], [], **HYPERPOD),
        32,
        None,
        {},
        ["train has 4 nodes (node_groups[0].count)", "max_count of 64", "lower `nodes` to 4, or raise `count`"],
    ),
    "hyperpod: no autoscaling": (platform([group(4, 8)], [], **HYPERPOD), 5, None, {}, ["hyperpod.autoscaling"]),
    "hyperpod: autoscaling": (platform([group(0, 8)], [], **SCALED), 8, None, {}, None),
    "hyperpod: autoscaling of another group": (
        platform([group(4, 8), group(0, 2, name="other")], [], **SCALED),
        5,
        None,
        {},
        ["train has 4 nodes", "HyperPod keeps the group at its count"],
    ),
    "nobody: the devices of a namespace": (platform([group(8)], TEAMS, **NOBODY), 4, "small", {}, [NO_BORROW]),
    "nobody: scales": (platform([group(4, 16)], []), 16, None, {}, None),
    "slurm: beyond a guarantee": (
        platform([group(8)], TEAMS, **SLURM),
        3,
        "large",
        {},
        ["the job does not borrow", "launch with --borrow, or raise teams[1].guarantee"],
    ),
    "slurm: borrows": (platform([group(8)], TEAMS, **SLURM), 8, "large", {"borrow": True}, None),
    "slurm: may not borrow": (platform([group(8)], TEAMS, **SLURM), 3, "small", {"borrow": True}, [NO_BORROW]),
    "slurm: is guaranteed nothing": (platform([group(8)], [{"name": "large"}], **SLURM), 8, "large", {}, None),
    "slurm: nothing adds nodes": (
        platform([group(2, 4)], [], **SLURM),
        3,
        None,
        {},
        ["train has 2 nodes", "HyperPod keeps"],
    ),
}


@pytest.mark.parametrize(("of", "nodes", "team", "options", "words"), CASES.values(), ids=CASES)
def test_a_job_that_can_never_start_is_refused_and_no_other(
    of: Platform, nodes: int, team: str | None, options: dict[str, Any], words: list[str] | None
) -> None:
    options = dict(options)
    named, job, hand_off = options.pop("group", None), program(nodes, team), hand_off_of(of)
    typed = KubernetesOptions(**options) if of.orchestrator.is_kubernetes else SlurmOptions(**options)
    demand = demand_of(job, hand_off, typed)
    if words is None:
        allocate(job, hand_off, CATALOGUE, named, demand)
    else:
        with pytest.raises(UsageError) as refused:
            allocate(job, hand_off, CATALOGUE, named, demand)
        for each in words:
            assert each in str(refused.value)


def requested(of: Platform, nodes: int, team: str | None, chosen: str | None = None) -> Request:
    """Return the request of a job on all groups of the platform, whatever it can have."""
    hand_off, job = hand_off_of(of), program(nodes, team)
    groups = [each for each in hand_off.node_groups if chosen in (None, each.name)]
    allocation = Allocation(groups[0], nodes, groups[0].ranks or 1, tuple(groups[1:]))
    return Request(job, "job-1129", hand_off, "image", allocation)


QUEUED = {
    name: case
    for name, case in CASES.items()
    if name.startswith(("kueue", "kai")) and not {"min_nodes", "spare_nodes"} & case[3].keys()
}


@pytest.mark.parametrize(("of", "nodes", "team", "options", "words"), QUEUED.values(), ids=QUEUED)
def test_the_queue_of_the_platform_admits_what_is_accepted_and_never_what_is_refused(
    of: Platform, nodes: int, team: str, options: dict[str, Any], words: list[str] | None
) -> None:
    found = admitted_group(of, requested(of, nodes, team, options.get("group")))
    assert (found is not None) is (words is None)


def earlier(of: Platform) -> HandOff:
    """Return the hand-off of a deploy that did not write how many nodes there can be."""
    absent: Any = {"node_groups": {"__all__": {"most", "fixed_by", "team_nodes"}}, "team_shares": True}
    return HandOff.model_validate(hand_off_of(of).model_dump(exclude=absent))


def test_the_hand_off_of_an_earlier_deploy_takes_the_bounds_from_its_platform_file() -> None:
    of, job = platform([group(4, 16)], TEAMS, kubernetes={"autoscaling": False}), program(5, "large")
    allocate(job, earlier(of), CATALOGUE)
    with pytest.raises(UsageError, match=r"kubernetes\.autoscaling is false"):
        allocate(job, completed(earlier(of), of, CATALOGUE), CATALOGUE)
    with pytest.raises(UsageError, match="the team small can have 2 nodes"):
        allocate(program(4, "small"), completed(earlier(of), of, CATALOGUE), CATALOGUE)


def test_a_file_of_other_sizes_bounds_nothing() -> None:
    of = platform([group(8, 16)], TEAMS)
    for other in (platform([group(4)], TEAMS), platform([group(8, 16)], [SMALL])):
        assert completed(earlier(of), other, CATALOGUE) == earlier(of)
    # What a deploy wrote comes before the file.
    assert completed(hand_off_of(of), platform([group(8, 16)], [SIX]), CATALOGUE) == hand_off_of(of)
