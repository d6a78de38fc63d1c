"""Twenty node groups fit in the same stacks as two, and in not much more of the engineer's time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.synthesis import Template, make_app, resources, templates
from trainway.spec.addressing import plan_addresses
from trainway.spec.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.services import service_facts

FEW, MANY = 2, 20
MOST_NODES = 32
INSTANCE_TYPES = ("p5.48xlarge", "p4d.24xlarge", "trn1.32xlarge", "g6e.48xlarge", "g5.8xlarge", "m7i.8xlarge")
ORCHESTRATORS = ("eks", "hyperpod-eks", "hyperpod-slurm")
MOST_RESOURCES = 200
MOST_TIMES_AS_LONG = 2
# Whatever else the machine does only ever adds to a measurement, so the fastest of each is what counts, and measuring
# ends as soon as the promise is seen to be kept.
LEAST_ROUNDS, MOST_ROUNDS = 3, 15


def platform_file(directory: Path, orchestrator: str, count: int) -> Path:
    """A platform with that many node groups, of every kind of instance that there is."""
    types = itertools.islice(itertools.cycle(INSTANCE_TYPES), count)
    groups = [
        {"name": f"group-{number}", "instance_type": kind, "count": 1, "max_count": MOST_NODES}
        for number, kind in enumerate(types)
    ]
    platform = {"name": "many", "region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"]}
    file = directory / f"{orchestrator}-{count}.yaml"
    file.write_text(yaml.safe_dump({**platform, "orchestrator": orchestrator, "node_groups": groups}))
    return file


def group_count(cluster: Template, orchestrator: str) -> int:
    """Node groups of the cluster's template, without the nodes that are the platform's own."""
    if orchestrator == "eks":
        return len(resources(cluster, "AWS::EKS::Nodegroup"))
    (hyperpod,) = resources(cluster, "AWS::SageMaker::Cluster").values()
    return len([group for group in hyperpod["InstanceGroups"] if group["InstanceGroupName"].startswith("group-")])


@pytest.fixture(params=ORCHESTRATORS)
def orchestrator(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_twenty_node_groups_of_every_kind_have_room_for_all_their_nodes(orchestrator: str, tmp_path: Path) -> None:
    catalogue = load_catalogue()
    plan = plan_addresses(load_platform(platform_file(tmp_path, orchestrator, MANY)), catalogue)
    assert len(plan.vpc_cidrs) <= service_facts().vpc.cidr_blocks
    assert len([subnet for subnet in plan.subnets if "group-" in subnet.name]) == MANY
    assert all(subnet.needed <= subnet.usable for subnet in plan.subnets)


def test_no_stack_of_twenty_node_groups_is_too_large_to_review(orchestrator: str, tmp_path: Path) -> None:
    made = templates(make_app(platform_file(tmp_path, orchestrator, MANY), tmp_path / "out"))
    assert group_count(made["cluster"], orchestrator) == MANY
    counts = {role: len(template["Resources"]) for role, template in made.items()}
    assert max(counts.values()) <= MOST_RESOURCES, counts


@pytest.mark.slow
def test_twenty_node_groups_take_at_most_twice_as_long_as_two(orchestrator: str, tmp_path: Path) -> None:
    few, many = (stopwatch(platform_file(tmp_path, orchestrator, count), tmp_path) for count in (FEW, MANY))
    few()  # what only the first synthesis of a process does
    fewest = most = float("inf")
    for finished in range(1, MOST_ROUNDS + 1):
        fewest, most = min(fewest, few()), min(most, many())
        if finished >= LEAST_ROUNDS and most <= MOST_TIMES_AS_LONG * fewest:
            break
    assert most <= MOST_TIMES_AS_LONG * fewest, f"{most:.2f} s for {MANY} groups, {fewest:.2f} s for {FEW}"


def stopwatch(file: Path, directory: Path) -> Callable[[], float]:
    """Synthesizes the platform anew at each call, and returns the seconds that took."""
    numbers = itertools.count()

    def seconds() -> float:
        began = time.perf_counter()
        templates(make_app(file, directory / f"{file.stem}-{next(numbers)}"))
        return time.perf_counter() - began

    return seconds
