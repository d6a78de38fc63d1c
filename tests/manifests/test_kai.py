"""The KAI scheduler's queues hold what the teams were promised, and no pod of a team is past them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from tests.hypothesis_profiles import examples
from tests.manifests.platforms import CATALOGUE, kai_platforms, named, objects, platform_of
from tests.manifests.typed_models import misread
from tests.seams.kubernetes.definitions import need_definitions
from tests.seams.kubernetes.reader import read
from tests.seams.kubernetes.rendered import deployed
from trainway.manifests import cluster_manifests
from trainway.manifests.kai import NO_LIMIT, SCHEDULER, USUAL_PRIORITY, parent_queue
from trainway.manifests.namespace import namespaces
from trainway.manifests.queue_labels import queue_labels
from trainway.spec.platform import Platform
from trainway.spec.sections.team import FAIR_SHARE

few = examples(0.6)
KAI: dict[str, Any] = {"kubernetes": {"queues": "kai"}}
RESOURCES = ("cpu", "memory", "gpu")
TEAMS = [{"name": "research", "guarantee": {"p5.48xlarge": 2}}, {"name": "product"}]


def amounts(queue: dict[str, Any], what: str) -> dict[str, int]:
    return {name: queue["spec"]["resources"][name][what] for name in RESOURCES}


def node(instance_type: str) -> dict[str, float]:
    """What a node has in KAI's units: thousandths of a CPU, millions of bytes, GPUs."""
    instance = CATALOGUE[instance_type]
    gpus = instance.devices.get("nvidia.com/gpu", 0)
    return {"cpu": instance.vcpus * 1000, "memory": instance.memory_gib * 2**30 / 1e6, "gpu": gpus}


@few
@given(kai_platforms())
def test_team_has_as_quota_the_nodes_it_is_guaranteed(platform: Platform) -> None:
    queues = named(platform, "Queue")
    for team in platform.teams:
        for name, amount in amounts(queues[team.name], "quota").items():
            promised = sum(nodes * node(of)[name] for of, nodes in team.guarantee.items())
            assert promised - len(platform.node_groups) < amount <= promised


@few
@given(kai_platforms())
def test_platforms_queue_has_all_nodes_and_teams_have_no_more_together(platform: Platform) -> None:
    queues = named(platform, "Queue")
    whole = amounts(queues.pop(parent_queue(platform)), "quota")
    assert set(queues) == {team.name for team in platform.teams}
    for name in RESOURCES:
        exists = sum(group.largest * node(group.instance_type)[name] for group in platform.node_groups)
        assert exists - len(platform.node_groups) < whole[name] <= exists
        assert sum(amounts(queue, "quota")[name] for queue in queues.values()) <= whole[name]


@few
@given(kai_platforms())
def test_team_that_may_not_borrow_has_its_quota_and_no_more(platform: Platform) -> None:
    queues = named(platform, "Queue")
    for team in platform.teams:
        queue = queues[team.name]
        assert amounts(queue, "limit") == (
            dict.fromkeys(RESOURCES, NO_LIMIT) if team.borrow else amounts(queue, "quota")
        )
        assert set(amounts(queue, "overQuotaWeight").values()) == {team.fair_share if team.borrow else 0}


def test_two_p5_nodes_in_kais_units() -> None:
    """192 CPUs and 2 TiB each: thousandths of a CPU, and megabytes of a million bytes."""
    queue = named(platform_of(**KAI), "Queue")["research"]
    assert amounts(queue, "quota") == {"cpu": 384_000, "memory": 4_398_046, "gpu": 16}


def test_teams_share_what_is_idle_by_weight_and_never_wait_for_a_queue_before_theirs() -> None:
    teams = [{"name": name, "priority": name} for name in ("low", "normal", "high")]
    queues = named(platform_of(teams=teams, **KAI), "Queue")
    low, normal, high = (amounts(queues[name], "overQuotaWeight")["gpu"] for name in ("low", "normal", "high"))
    assert 0 < low < normal < high
    assert not any("priority" in queue["spec"] for queue in queues.values())


def test_a_guarantee_is_given_back_at_once() -> None:
    platform = platform_of(**KAI)
    spec = named(platform, "Queue")[parent_queue(platform)]["spec"]
    assert (spec["reclaimMinRuntime"], spec["preemptMinRuntime"]) == ("0s", "0s")


def test_queues_are_applied_after_the_one_they_are_below() -> None:
    platform = platform_of(teams=TEAMS, **KAI)
    parent, *teams = objects(platform, "Queue")
    assert "parentQueue" not in parent["spec"]
    assert {team["spec"]["parentQueue"] for team in teams} == {parent["metadata"]["name"]}


def test_no_team_can_be_called_as_the_platforms_queue() -> None:
    with pytest.raises(ValidationError):
        platform_of(teams=[{"name": parent_queue(platform_of())}])


@few
@given(kai_platforms())
def test_the_runtime_asks_for_a_place_that_there_is(platform: Platform) -> None:
    (runtime,) = objects(platform, "ClusterTrainingRuntime")
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    wish = job["template"]["metadata"]["annotations"]
    levels = named(platform, "Topology")[wish["kai.scheduler/topology"]]["spec"]["levels"]
    assert {"nodeLabel": wish["kai.scheduler/topology-preferred-placement"]} in levels
    assert wish["kai.scheduler/topology"] == "network-3"
    assert job["template"]["spec"]["template"]["spec"]["schedulerName"] == SCHEDULER


def test_without_gpus_the_runtime_asks_for_nodes_alone() -> None:
    groups = [{"name": "data", "instance_type": "m7i.8xlarge", "count": 2}]
    (runtime,) = objects(platform_of(node_groups=groups, teams=[{"name": "research"}], **KAI), "ClusterTrainingRuntime")
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert job["template"]["metadata"]["annotations"]["kai.scheduler/topology"] == "nodes"


def test_a_node_that_is_taken_back_does_not_count_as_a_failure() -> None:
    (runtime,) = objects(platform_of(**KAI), "ClusterTrainingRuntime")
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (rule,) = job["template"]["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    # Kubernetes takes such a policy only of jobs whose pods are not restarted in their place.
    assert job["template"]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_kubernetes_and_trainer_accept_every_object() -> None:
    from kubeflow_trainer_api.models import TrainerV1alpha1ClusterTrainingRuntime

    platform = platform_of(teams=TEAMS, kubernetes={"queues": "kai", "mpi_operator": True})
    need_definitions()
    checked = set()
    for name, manifest in cluster_manifests(platform, CATALOGUE).items():
        if name.startswith("objects/"):
            assert read(deployed(manifest), platform.kubernetes_or_default.version) == []
            checked.add(manifest["kind"])
    assert checked >= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "PriorityClass"}
    (runtime,) = objects(platform, "ClusterTrainingRuntime")
    assert not misread(TrainerV1alpha1ClusterTrainingRuntime, runtime)


@pytest.mark.parametrize(
    "changes",
    [{}, {"teams": [], **KAI}, {"kubernetes": {"queues": "none"}}, {"orchestrator": "hyperpod-eks", **KAI}],
    ids=["Kueue", "no teams", "no queues", "HyperPod"],
)
def test_platform_whose_nodes_kai_does_not_share_has_nothing_of_it(changes: dict[str, Any]) -> None:
    platform = platform_of(**changes)
    assert not platform.kai
    for name, manifest in cluster_manifests(platform, CATALOGUE).items():
        if manifest.get("kind") not in ("ClusterRole", "Role"):
            assert "kai" not in json.dumps(manifest), name


def test_platform_whose_nodes_kai_shares_has_nothing_of_kueue() -> None:
    platform = platform_of(**KAI)
    assert (platform.kai, platform.kueue) == (True, False)
    for name, manifest in cluster_manifests(platform, CATALOGUE).items():
        if manifest.get("kind") not in ("ClusterRole", "Role"):
            assert "kueue" not in json.dumps(manifest), name


def admits(
    resource: str,
    subject: dict[str, Any],
    before: dict[str, Any] | None = None,
    namespace: str = "research",
    platform: Platform | None = None,
) -> bool:
    """Whether the API server lets the object be made, or changed from what it was before."""
    import cel

    platform = platform or platform_of(teams=TEAMS, **KAI)
    operation, verdicts = "UPDATE" if before else "CREATE", []
    group, _, plural = resource.rpartition("/")
    bound = {each["spec"]["policyName"] for each in objects(platform, "ValidatingAdmissionPolicyBinding")}
    for policy in objects(platform, "ValidatingAdmissionPolicy"):
        assert policy["metadata"]["name"] in bound
        match = policy["spec"]["matchConstraints"]
        labels = named(platform, "Namespace")[namespace]["metadata"]["labels"]
        assert match["namespaceSelector"]["matchLabels"].items() <= labels.items()
        (rule,) = match["resourceRules"]
        if (
            operation in rule["operations"]
            and {group, "*"} & set(rule["apiGroups"])
            and {plural, "*"} & set(rule["resources"])
        ):
            known = {
                "object": subject,
                "oldObject": before,
                "request": {"operation": operation, "namespace": namespace},
            }
            verdicts += [cel.evaluate(each["expression"], known) for each in policy["spec"]["validations"]]
    return all(verdict is True for verdict in verdicts)


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"schedulerName": SCHEDULER, **spec}}


def labeled(owners: bool = False, **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": {key.replace("queue", "kai.scheduler/queue"): labels[key] for key in labels}}
    return {"metadata": metadata | ({"ownerReferences": [{"name": "owner"}]} if owners else {})}


@pytest.mark.parametrize("resource", ["trainer.kubeflow.org/trainjobs", "batch/jobs"])
def test_a_job_is_in_its_teams_queue_or_not_at_all(resource: str) -> None:
    assert admits(resource, labeled(queue="research"))
    assert admits(resource, labeled(queue="research", project="anything"))
    assert not admits(resource, labeled(queue="product"))
    assert not admits(resource, labeled(team="research"))
    assert not admits(resource, {"metadata": {}})


def test_a_launcher_is_told_the_label_that_is_asked_for() -> None:
    platform = platform_of(teams=TEAMS, **KAI)
    labels = {name: value.format(team="product") for name, value in queue_labels(platform).items()}
    assert admits("batch/jobs", {"metadata": {"labels": labels}}, namespace="product", platform=platform)
    assert not admits("batch/jobs", {"metadata": {"labels": labels}}, namespace="research", platform=platform)


def test_jobs_of_task_governance_name_the_queue_of_their_namespace_and_kueues_none() -> None:
    governed = platform_of(orchestrator="hyperpod-eks")
    (queue,) = queue_labels(governed).values()
    assert queue.format(team="research") == f"{namespaces(governed)[0]}-localqueue"
    assert queue_labels(platform_of()) == queue_labels(platform_of(orchestrator="hyperpod-eks", teams=[])) == {}


def test_every_kind_of_job_is_asked_for_its_queue() -> None:
    platform = platform_of(kubernetes={"queues": "kai", "mpi_operator": True})
    assert not admits("kubeflow.org/mpijobs", {"metadata": {}}, platform=platform)
    assert admits("kubeflow.org/mpijobs", labeled(queue="research"), platform=platform)


def test_what_controllers_make_of_a_job_needs_no_label_of_its_own() -> None:
    assert admits("batch/jobs", labeled(owners=True))
    assert admits("jobset.x-k8s.io/jobsets", labeled(owners=True))
    assert admits("/pods", pod())


@pytest.mark.parametrize(
    "resource", ["/pods", "/configmaps", "jobset.x-k8s.io/jobsets", "batch/jobs", "x.org/anything"]
)
def test_nothing_that_an_owner_could_be_names_the_queue_of_another_team(resource: str) -> None:
    spec = pod()["spec"]
    assert not admits(resource, labeled(owners=True, queue="product") | {"spec": spec})
    assert not admits(resource, labeled(owners=True, project="product") | {"spec": spec})
    assert not admits(resource, labeled(queue="product"), before=labeled(queue="research"))
    assert not admits(resource, labeled(project="product"), before={"metadata": {}})


def test_what_was_there_before_the_guard_can_be_cleaned_up() -> None:
    assert admits("/pods", labeled(project="old"), before=labeled(project="old"))
    assert admits("/configmaps", {"metadata": {}}, before=labeled(project="old"))


@pytest.mark.parametrize(
    "spec", [{"schedulerName": "default-scheduler"}, {"nodeName": "ip-10-0-0-1.ec2.internal"}], ids=str
)
def test_no_pod_of_a_team_goes_past_the_scheduler(spec: dict[str, str]) -> None:
    assert admits("/pods", pod())
    assert not admits("/pods", pod(**spec))


def test_guards_bind_in_the_teams_namespaces_alone() -> None:
    share = {"storage": {"lustre": {"team_directories": False}}}
    platform = platform_of(teams=TEAMS, **KAI, **share)
    selected = [each["spec"]["matchConstraints"] for each in objects(platform, "ValidatingAdmissionPolicy")]
    assert len(selected) > 3
    for constraints in selected:
        labels = constraints["namespaceSelector"]["matchLabels"].items()
        bound = [
            name for name, each in named(platform, "Namespace").items() if labels <= each["metadata"]["labels"].items()
        ]
        assert bound == list(namespaces(platform)) == ["research", "product"]


def test_jobs_of_all_priorities_can_be_preempted_and_normal_is_the_usual_one() -> None:
    values = {name: each["value"] for name, each in named(platform_of(**KAI), "PriorityClass").items()}
    assert values["low"] < values["normal"] == USUAL_PRIORITY < values["high"] < 100


def test_parts_of_an_elastic_job_of_hyperpod_have_the_priorities_of_its_policy() -> None:
    operator = {"orchestrator": "hyperpod-eks", "hyperpod": {"training_operator": True}}
    values = {name: each["value"] for name, each in named(platform_of(**operator), "PriorityClass").items()}
    assert values == FAIR_SHARE
    assert not objects(platform_of(orchestrator="hyperpod-eks"), "PriorityClass")
    assert not objects(platform_of(), "PriorityClass")
