"""The queues share out exactly the nodes that there are, as the teams were promised."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from tests.hypothesis_profiles import examples
from tests.manifests.platforms import CATALOGUE, TYPES, named, objects, platform_of, platforms
from tests.synthesis import EXAMPLES, resources, templates_of
from trainway.manifests import cluster_manifests
from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.kueue import API
from trainway.manifests.team_directory_opener import NAMESPACE as OPENER
from trainway.manifests.topology import topology, topology_name
from trainway.spec.capacity.autoscaling import scaled_groups
from trainway.spec.facts.services import service_facts
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

few = examples(0.6)


def quantity(text: str) -> int:
    """What Kubernetes reads; memory in GiB."""
    return int(text.removesuffix("Gi"))


def quotas(queue: dict[str, Any]) -> dict[str, dict[str, dict[str, str]]]:
    """A queue's or a cohort's quotas by flavor and resource."""
    (group,) = queue["spec"]["resourceGroups"]
    for flavor in group["flavors"]:
        assert [each["name"] for each in flavor["resources"]] == group["coveredResources"]
    return {flavor["name"]: {each["name"]: each for each in flavor["resources"]} for flavor in group["flavors"]}


def flavor_of(platform: Platform) -> dict[str, str]:
    """The flavor's name by node group."""
    flavors = objects(platform, "ResourceFlavor")
    return {flavor["spec"]["nodeLabels"][NODES_LABEL]: flavor["metadata"]["name"] for flavor in flavors}


def node(instance_type: str) -> dict[str, int]:
    instance = CATALOGUE[instance_type]
    return {"cpu": instance.vcpus, "memory": instance.memory_gib, **instance.devices}


@few
@given(platforms())
def test_quotas_of_all_queues_add_up_to_the_platform_at_its_largest(platform: Platform) -> None:
    added: Counter[tuple[str, str]] = Counter()
    for queue in (*objects(platform, "ClusterQueue"), *objects(platform, "Cohort")):
        for flavor, amounts in quotas(queue).items():
            for resource, quota in amounts.items():
                added[flavor, resource] += quantity(quota["nominalQuota"])
    flavors = flavor_of(platform)
    exists = {
        (flavors[group.name], resource): group.largest * amount
        for group in platform.node_groups
        for resource, amount in node(group.instance_type).items()
    }
    assert {key: amount for key, amount in added.items() if amount} == exists


@few
@given(platforms())
def test_team_has_as_quota_the_nodes_it_is_guaranteed_and_no_others(platform: Platform) -> None:
    queues, flavors = named(platform, "ClusterQueue"), flavor_of(platform)
    for team in platform.teams:
        found = Counter[str]()
        for group in platform.node_groups:
            amounts = quotas(queues[team.name])[flavors[group.name]]
            nodes = quantity(amounts["cpu"]["nominalQuota"]) // CATALOGUE[group.instance_type].vcpus
            for resource, quota in amounts.items():
                assert quantity(quota["nominalQuota"]) == nodes * node(group.instance_type).get(resource, 0)
            found[group.instance_type] += nodes
        assert +found == +Counter(team.guarantee)


@few
@given(platforms())
def test_team_that_may_not_borrow_borrows_nothing_and_others_all_there_is(platform: Platform) -> None:
    queues = named(platform, "ClusterQueue")
    for team in platform.teams:
        every = quotas(queues[team.name])
        limits = {quota.get("borrowingLimit") for amounts in every.values() for quota in amounts.values()}
        assert limits == ({None} if team.borrow else {"0"})
        assert set(every) == set(flavor_of(platform).values())


@few
@given(platforms())
def test_every_name_that_an_object_refers_to_is_there(platform: Platform) -> None:
    flavors, queues = named(platform, "ResourceFlavor"), named(platform, "ClusterQueue")
    topologies, namespaces = named(platform, "Topology"), set(named(platform, "Namespace")) - {OPENER}
    assert {flavor["spec"]["topologyName"] for flavor in flavors.values()} == set(topologies)
    for queue in (*queues.values(), *objects(platform, "Cohort")):
        assert set(quotas(queue)) == set(flavors)
    assert {queue["spec"]["cohortName"] for queue in queues.values()} == set(named(platform, "Cohort"))
    ways_in = {each["metadata"]["namespace"]: each["spec"]["clusterQueue"] for each in objects(platform, "LocalQueue")}
    assert set(ways_in) == namespaces
    assert set(ways_in.values()) == set(queues)
    for namespace, queue in ways_in.items():
        selected = queues[queue]["spec"]["namespaceSelector"]["matchLabels"]
        assert selected == {"kubernetes.io/metadata.name": namespace}


@few
@given(platforms())
def test_nodes_that_come_and_go_are_asked_for_all_at_once_and_others_are_not(platform: Platform) -> None:
    flavors, checks = flavor_of(platform), objects(platform, "AdmissionCheck")
    scaled = {flavors[group.name] for group in scaled_groups(platform, CATALOGUE)}
    assert len(checks) == bool(scaled)
    for queue in named(platform, "ClusterQueue").values():
        strategy = queue["spec"].get("admissionChecksStrategy", {"admissionChecks": []})["admissionChecks"]
        assert {each["name"] for each in strategy} == {each["metadata"]["name"] for each in checks}
        assert {flavor for each in strategy for flavor in each["onFlavors"]} == scaled
    for check in checks:
        (how,) = objects(platform, check["spec"]["parameters"]["kind"])
        assert how["metadata"]["name"] == check["spec"]["parameters"]["name"]


def test_job_without_a_queues_name_is_in_its_teams_queue() -> None:
    """Kueue gives it to the LocalQueue of this name."""
    assert {queue["metadata"]["name"] for queue in objects(platform_of(), "LocalQueue")} == {"default"}


def test_flavors_have_the_labels_and_taints_of_the_nodes_that_the_stacks_make() -> None:
    file = next(file for file in EXAMPLES if file.stem == "eks-p5")
    template = templates_of(file)["cluster"]
    made = {
        group["Labels"][NODES_LABEL]: [
            {"key": taint["Key"], "value": taint["Value"], "effect": {"NO_SCHEDULE": "NoSchedule"}[taint["Effect"]]}
            for taint in group.get("Taints", ())
        ]
        for group in resources(template, "AWS::EKS::Nodegroup").values()
    }
    flavors = objects(load_platform(file), "ResourceFlavor")
    assert {each["spec"]["nodeLabels"][NODES_LABEL]: each["spec"]["nodeTaints"] for each in flavors} == made


def test_job_tries_nodes_without_accelerators_first_and_its_teams_own_before_borrowed_ones() -> None:
    platform = platform_of(
        node_groups=[
            {"name": "first", "instance_type": "p5.48xlarge", "count": 2},
            {"name": "second", "instance_type": "p5.48xlarge", "count": 2},
            {"name": "data", "instance_type": "m7i.8xlarge", "count": 2},
        ],
        teams=[
            {"name": "research", "guarantee": {"p5.48xlarge": 2}},
            {"name": "product", "guarantee": {"p5.48xlarge": 1}},
        ],
    )
    queues, flavors = named(platform, "ClusterQueue"), flavor_of(platform)
    assert list(quotas(queues["research"])) == [flavors[name] for name in ("data", "first", "second")]
    assert list(quotas(queues["product"])) == [flavors[name] for name in ("data", "second", "first")]


def test_guarantee_is_taken_back_from_whoever_borrowed_it() -> None:
    (queue,) = objects(platform_of(), "ClusterQueue")
    assert queue["spec"]["preemption"]["reclaimWithinCohort"] == "Any"
    # The API refuses another policy only without fair sharing, which goes by weight.
    assert queue["spec"]["preemption"]["borrowWithinCohort"] == {"policy": "Never"}


def test_team_of_higher_priority_has_more_of_what_is_idle() -> None:
    teams = [{"name": name, "priority": name} for name in ("low", "normal", "high")]
    queues = named(platform_of(teams=teams), "ClusterQueue")
    low, normal, high = (float(queues[name]["spec"]["fairSharing"]["weight"]) for name in ("low", "normal", "high"))
    assert 0 < low < normal < high


def test_job_that_names_no_priority_has_the_normal_one() -> None:
    values = {name: each["value"] for name, each in named(platform_of(), "WorkloadPriorityClass").items()}
    assert values["low"] < values["normal"] == 0 < values["high"]


@pytest.mark.parametrize("instance_type", TYPES)
def test_only_labels_that_the_nodes_have_are_levels(instance_type: str) -> None:
    instance = CATALOGUE[instance_type]
    levels = [level["nodeLabel"] for level in topology(topology_name("us-west-2", instance), API)["spec"]["levels"]]
    layers = [f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3, 4)]
    known = {"p5.48xlarge": 3, "trn2.48xlarge": 3, "p6-b200.48xlarge": 4}.get(instance_type, 0)
    assert levels == [*layers[:known], "kubernetes.io/hostname"]


def test_region_without_instance_topology_has_nodes_only() -> None:
    assert "us-gov-east-1" not in service_facts().topology.regions
    assert topology_name("us-gov-east-1", CATALOGUE["p5.48xlarge"]) == "nodes"


def test_p6_types_have_four_layers_of_labels() -> None:
    labeled = {name: instance for name, instance in CATALOGUE.items() if instance.topology_layers}
    assert {name for name in CATALOGUE if name.startswith("p6-")} == {
        name for name, instance in labeled.items() if instance.topology_layers == 4
    }


@few
@given(platforms())
def test_every_flavor_has_the_level_that_jobs_ask_to_be_close_at(platform: Platform) -> None:
    (runtime,) = objects(platform, "ClusterTrainingRuntime")
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    annotations = job["template"]["spec"]["template"]["metadata"]["annotations"]
    level = annotations["kueue.x-k8s.io/podset-preferred-topology"]
    for each in objects(platform, "Topology"):
        assert {"nodeLabel": level} in each["spec"]["levels"]


@pytest.mark.parametrize(
    "changes",
    [
        {"teams": []},
        {"kubernetes": {"queues": "none"}},
        {"orchestrator": "hyperpod-eks"},
    ],
    ids=["no teams", "no queues", "HyperPod"],
)
def test_platform_whose_nodes_kueue_does_not_share_has_nothing_of_it(changes: dict[str, Any]) -> None:
    assert "kueue.x-k8s.io/v1beta2" in json.dumps(cluster_manifests(platform_of(), CATALOGUE))
    platform = platform_of(**changes)
    assert not platform.kueue
    for name, manifest in cluster_manifests(platform, CATALOGUE).items():
        if name.startswith("objects/"):
            assert not manifest["apiVersion"].startswith("kueue.x-k8s.io"), name
    (runtime,) = objects(platform, "ClusterTrainingRuntime")
    assert "kueue" not in json.dumps(runtime)
