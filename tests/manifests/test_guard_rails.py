"""What a team's namespace cannot exceed, with queues and without."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.hypothesis_profiles import examples
from tests.manifests.platforms import CATALOGUE, objects, platform_of, platforms
from trainway.manifests.job_kinds import job_kinds
from trainway.manifests.namespace import namespaces
from trainway.spec.platform import Platform


def ceilings(platform: Platform) -> dict[str, dict[str, str]]:
    """The hard limits by namespace."""
    return {each["metadata"]["namespace"]: each["spec"]["hard"] for each in objects(platform, "ResourceQuota")}


@pytest.mark.parametrize("changes", [{}, {"orchestrator": "hyperpod-eks"}, {"kubernetes": {"queues": "none"}}], ids=str)
def test_every_teams_namespace_has_its_guard_rails(changes: dict[str, Any]) -> None:
    platform = platform_of(teams=[{"name": "research"}, {"name": "product"}], **changes)
    for kind in ("LimitRange", "ResourceQuota"):
        assert [each["metadata"]["namespace"] for each in objects(platform, kind)] == list(namespaces(platform))


def test_platform_without_teams_has_none() -> None:
    platform = platform_of(teams=[])
    assert not objects(platform, "LimitRange")
    assert not objects(platform, "ResourceQuota")


def test_container_without_requests_counts_and_is_not_limited() -> None:
    (limits,) = objects(platform_of(), "LimitRange")
    assert limits["spec"]["limits"] == [{"type": "Container", "defaultRequest": {"cpu": "1", "memory": "4Gi"}}]


def test_queues_cover_what_a_container_without_requests_asks_for() -> None:
    """Kueue never admits a pod that asks for a resource which its queue does not cover."""
    platform = platform_of()
    (limits,) = objects(platform, "LimitRange")
    (queue,) = objects(platform, "ClusterQueue")
    (group,) = queue["spec"]["resourceGroups"]
    assert set(limits["spec"]["limits"][0]["defaultRequest"]) <= set(group["coveredResources"])


def test_jobs_open_no_ports_outside_the_cluster() -> None:
    (hard,) = ceilings(platform_of()).values()
    assert (hard["services.loadbalancers"], hard["services.nodeports"]) == ("0", "0")


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, {"trainjobs.trainer.kubeflow.org", "jobs.batch"}),
        ({"kubernetes": {"mpi_operator": True}}, {"mpijobs.kubeflow.org"}),
        ({"kubernetes": {"trainer": False}}, {"jobs.batch"}),
        (
            {"orchestrator": "hyperpod-eks", "hyperpod": {"training_operator": True}},
            {"hyperpodpytorchjobs.sagemaker.amazonaws.com"},
        ),
    ],
    ids=["always", "MPI", "no Trainer", "HyperPod"],
)
def test_every_kind_of_job_is_counted(changes: dict[str, Any], kinds: set[str]) -> None:
    platform = platform_of(**changes)
    assert kinds <= {f"{plural}.{group}" for group, plural in job_kinds(platform)}
    (hard,) = ceilings(platform).values()
    counted = {name.removeprefix("count/") for name in hard if name.startswith("count/")}
    assert counted == {f"{plural}.{group}" for group, plural in job_kinds(platform)}


@examples(0.4)
@given(platforms())
def test_team_that_may_not_borrow_has_the_devices_of_its_nodes_and_no_more(platform: Platform) -> None:
    exist = {name for group in platform.node_groups for name in CATALOGUE[group.instance_type].devices}
    for team in platform.teams:
        hard = ceilings(platform)[team.name]
        devices = {name.removeprefix("requests."): int(count) for name, count in hard.items() if "requests." in name}
        owned = {
            name: sum(nodes * CATALOGUE[each].devices.get(name, 0) for each, nodes in team.guarantee.items())
            for name in exist
        }
        assert devices == ({} if team.borrow else owned)


def test_two_p5_nodes_are_16_gpus_and_64_efa_devices() -> None:
    team = {"name": "research", "guarantee": {"p5.48xlarge": 2}, "borrow": False}
    hard = ceilings(platform_of(teams=[team]))["research"]
    assert (hard["requests.nvidia.com/gpu"], hard["requests.vpc.amazonaws.com/efa"]) == ("16", "64")
