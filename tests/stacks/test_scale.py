"""Twenty node groups fit in the same stacks as two. benchmarks/planning.py has what they take."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import yaml

from tests.anywhere import ANYWHERE
from tests.people import with_people
from tests.representatives import with_representatives
from tests.synthesis import Template, resources, templates_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.loader import load_platform
from trainway.spec.network.addressing import plan_addresses

MANY = 20
MOST_NODES = 32
INSTANCE_TYPES = ("p5.48xlarge", "p4d.24xlarge", "trn1.32xlarge", "g6e.48xlarge", "g5.8xlarge", "m7i.8xlarge")
ORCHESTRATORS = ("eks", "hyperpod-eks", "hyperpod-slurm")
MOST_RESOURCES = 200


def platform_file(directory: Path, orchestrator: str, count: int) -> Path:
    """A platform with that many node groups, of every kind of instance that there is."""
    types = itertools.islice(itertools.cycle(INSTANCE_TYPES), count)
    groups = [
        {"name": f"group-{number}", "instance_type": kind, "count": 1, "max_count": MOST_NODES}
        for number, kind in enumerate(types)
    ]
    platform = {"name": "many", "region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"], "accept": ANYWHERE}
    file = directory / f"{orchestrator}-{count}.yaml"
    file.write_text(yaml.safe_dump(with_people({**platform, "orchestrator": orchestrator, "node_groups": groups})))
    return file


def group_count(cluster: Template, orchestrator: str) -> int:
    """Node groups of the cluster's template, without the nodes that are the platform's own."""
    if orchestrator == "eks":
        return len(resources(cluster, "AWS::EKS::Nodegroup"))
    (hyperpod,) = resources(cluster, "AWS::SageMaker::Cluster").values()
    return len([group for group in hyperpod["InstanceGroups"] if group["InstanceGroupName"].startswith("group-")])


@pytest.mark.parametrize("orchestrator", ORCHESTRATORS)
def test_twenty_node_groups_of_every_kind_have_room_for_all_their_nodes(orchestrator: str, tmp_path: Path) -> None:
    catalogue = load_catalogue()
    plan = plan_addresses(load_platform(platform_file(tmp_path, orchestrator, MANY)), catalogue)
    assert len(plan.vpc_cidrs) <= service_facts().vpc.cidr_blocks
    assert len([subnet for subnet in plan.subnets if "group-" in subnet.name]) == MANY
    assert all(subnet.needed <= subnet.usable for subnet in plan.subnets)


# Only on EKS does each node group have resources of its own. HyperPod's groups are parts of one resource.
@pytest.mark.parametrize("orchestrator", with_representatives(ORCHESTRATORS, ("eks", "hyperpod-slurm")))
def test_no_stack_of_twenty_node_groups_is_too_large_to_review(orchestrator: str, tmp_path: Path) -> None:
    made = templates_of(platform_file(tmp_path, orchestrator, MANY))
    assert group_count(made["cluster"], orchestrator) == MANY
    counts = {role: len(template["Resources"]) for role, template in made.items()}
    assert max(counts.values()) <= MOST_RESOURCES, counts
