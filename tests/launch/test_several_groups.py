"""A job starts in each of the node groups of its instance type, on nodes of one group, in the order of the file."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.launch.kubernetes.platforms import hand_off_of
from tests.launch.kubernetes.queue_admission import admitted_group
from tests.manifests.platforms import CATALOGUE, platform_of
from trainway.launch.job_file.programs import program_of
from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.kubernetes.placement import affinity, node_selector, selected_nodes
from trainway.launch.program.allocation import Demand, allocate
from trainway.launch.program.request import Request
from trainway.launch.slurm.options import SlurmOptions
from trainway.launch.slurm.script import render_script
from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.topology import HOSTNAME
from trainway.spec.platform import Platform

IMAGE = f"111122223333.dkr.ecr.us-west-2.amazonaws.com/atlas/training@sha256:{64 * '0'}"
P5 = "p5.48xlarge"
GROUPS: list[dict[str, Any]] = [
    {"name": "reserved", "instance_type": P5, "count": 2, "capacity": {"reservation": "cr-0123456789abcdef0"}},
    {"name": "ondemand", "instance_type": P5, "count": 0, "max_count": 4},
    {"name": "other", "instance_type": "p5en.48xlarge", "count": 4},
    {"name": "spot", "instance_type": P5, "count": 0, "max_count": 4, "capacity": "spot"},
]
TEAM = {"name": "research", "guarantee": {P5: 6}}
KAI = {"kubernetes": {"queues": "kai"}, "teams": [{"name": "research"}]}
NOBODY: dict[str, Any] = {"teams": []}
GOVERNANCE = {"orchestrator": "hyperpod-eks", "hyperpod": {"autoscaling": True}}
RUN_AI = {
    "kubernetes": {
        "gpu_devices": "operator",
        "run_ai": {"control_plane": "https://example.run.ai", "secret": "run-ai"},
    }
}


def platform(**changes: Any) -> Platform:
    return platform_of(**({"node_groups": GROUPS, "teams": [TEAM]} | changes))


def request(of: Platform, nodes: int, group: str | None = None, demand: Demand | None = None) -> Request:
    team = {"team": "research"} if of.teams else {}
    job = {"name": "job", "nodes": nodes, **team, "run": {"command": ["python", "train.py"]}}
    program, hand_off = program_of(job, yaml.safe_dump(job)), hand_off_of(of)
    return Request(program, "job-1129", hand_off, IMAGE, allocate(program, hand_off, CATALOGUE, group, demand))


def groups_of(asked: Request) -> list[str]:
    return [each.name for each in asked.allocation.groups]


ALL = ["reserved", "ondemand", "spot"]


@pytest.mark.parametrize(
    ("changes", "nodes", "groups"),
    [
        ({}, 2, ALL),
        ({}, 3, ["ondemand", "spot"]),
        (RUN_AI, 2, ALL),
        (NOBODY, 2, ALL),
        (KAI, 1, ALL),
        # These queues count nodes of a type, and would give one job nodes of several groups.
        (KAI, 2, ["reserved"]),
        (GOVERNANCE, 2, ["reserved"]),
        (GOVERNANCE, 1, ALL),
    ],
    ids=[
        "kueue",
        "kueue, too large for one",
        "run-ai",
        "nobody",
        "kai, a node",
        "kai",
        "governance",
        "governance, a node",
    ],
)
def test_a_job_may_start_in_each_group_that_is_like_the_first_and_large_enough(
    changes: dict[str, Any], nodes: int, groups: list[str]
) -> None:
    assert groups_of(request(platform(**changes), nodes)) == groups


def test_a_group_that_is_named_is_the_only_one() -> None:
    asked = request(platform(), 2, "ondemand")
    assert groups_of(asked) == ["ondemand"]
    assert node_selector(asked) == {NODES_LABEL: "ondemand"}
    assert affinity(asked, KubernetesOptions()) is None


def test_a_training_job_of_sagemaker_has_the_subnet_of_one_group() -> None:
    assert groups_of(request(platform(), 2, demand=Demand(2, 2, on_platform=False))) == ["reserved"]


def expressions(asked: Request, **options: Any) -> list[dict[str, Any]]:
    found = affinity(asked, KubernetesOptions(**options)) or {}
    [term] = found["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return list(term["matchExpressions"])


def test_pods_select_the_groups_and_no_single_one() -> None:
    asked = request(platform(), 2)
    assert NODES_LABEL not in node_selector(asked)
    own = {"key": NODES_LABEL, "operator": "In", "values": ALL}
    assert expressions(asked) == [own]
    assert expressions(asked, exclude="ip-1") == [own, {"key": HOSTNAME, "operator": "NotIn", "values": ["ip-1"]}]
    assert selected_nodes(asked) == f"{NODES_LABEL} in (reserved,ondemand,spot)"
    healthy = request(platform(**GOVERNANCE), 1)
    assert list(node_selector(healthy)) == ["sagemaker.amazonaws.com/node-health-status"]


def test_kueue_gives_all_pods_the_first_group_that_has_room() -> None:
    of = platform()
    assert admitted_group(of, request(of, 2)) == "reserved"
    assert admitted_group(of, request(of, 3)) == "ondemand"
    # Kueue decides by the flavors of the queue. A scheduler's preference is for platforms without Kueue.
    assert set(affinity(request(of, 2), KubernetesOptions()) or {}) == {"nodeAffinity"}
    assert "preferred" not in str(affinity(request(of, 2), KubernetesOptions()))


def test_without_a_queue_the_pods_of_a_job_follow_the_first_of_them() -> None:
    found = affinity(request(platform(**NOBODY), 2), KubernetesOptions()) or {}
    [same] = found["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert same == {"labelSelector": {"matchLabels": {"trainway.dev/run": "job-1129"}}, "topologyKey": NODES_LABEL}
    preferred = found["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    order = sorted(preferred, key=lambda each: -int(each["weight"]))
    assert [each["preference"]["matchExpressions"][0]["values"][0] for each in order] == ALL
    assert "podAffinity" not in (affinity(request(platform(**KAI), 1), KubernetesOptions()) or {})


def test_slurm_starts_a_job_in_one_partition_of_several() -> None:
    groups = [group | {"count": 4, "max_count": 4} for group in GROUPS if "capacity" not in group]
    groups.append({"name": "more", "instance_type": P5, "count": 2})
    of = platform(node_groups=groups, teams=[], orchestrator="hyperpod-slurm")
    assert "#SBATCH --partition=ondemand,more\n" in render_script(request(of, 2), CATALOGUE, SlurmOptions())
    assert "#SBATCH --partition=ondemand\n" in render_script(request(of, 3), CATALOGUE, SlurmOptions())
