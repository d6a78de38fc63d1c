"""However devices come to pods, Kubernetes takes the objects, and whoever counts devices counts the same ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import yaml

from tests.fictitious import NAME, catalogue_with
from tests.manifests.platforms import CATALOGUE, named, objects, platform_of
from tests.manifests.typed_models import misread
from tests.seams.kubernetes.definitions import need_definitions
from tests.seams.kubernetes.reader import read
from tests.seams.kubernetes.rendered import deployed
from tests.synthesis import ROOT
from trainway.manifests import cluster_manifests
from trainway.manifests.device_claims import LARGEST_CLAIM
from trainway.spec.capacity.devices import EFA_CLASS, devices_of
from trainway.spec.facts.instance import EFA_RESOURCE
from trainway.spec.platform import Platform

WAYS: list[dict[str, str]] = [
    {},
    {"efa_devices": "dra"},
    {"gpu_devices": "dra", "queues": "none"},
    {"gpu_devices": "dra", "efa_devices": "plugin", "queues": "none"},
    {"gpu_devices": "operator"},
]
# P5 nodes whole, a P5 node in fractions, and nodes with half the EFA devices.
GROUPS = [
    {"name": "train", "instance_type": "p5.48xlarge", "count": 4, "max_count": 8},
    {"name": "play", "instance_type": "p4d.24xlarge", "count": 1},
    {"name": "neuron", "instance_type": "trn2.48xlarge", "count": 1},
    {"name": "data", "instance_type": "m7i.8xlarge", "count": 1},
]
TEAM = {"name": "research", "guarantee": {"p5.48xlarge": 2, "p4d.24xlarge": 1}, "borrow": False}


@pytest.fixture(params=WAYS, ids=str)
def platform(request: pytest.FixtureRequest) -> Platform:
    play = {**GROUPS[1], "mig": "1g.5gb"} if request.param.get("gpu_devices") == "operator" else GROUPS[1]
    groups = [GROUPS[0], play, *GROUPS[2:]]
    return platform_of(kubernetes=request.param, node_groups=groups, teams=[TEAM])


def test_kubernetes_takes_every_object(platform: Platform) -> None:
    need_definitions()
    for name, manifest in cluster_manifests(platform, CATALOGUE).items():
        if name.startswith("objects/"):
            assert read(deployed(manifest), platform.kubernetes_or_default.version) == []


def test_trainer_takes_every_runtime(platform: Platform) -> None:
    from kubeflow_trainer_api.models import TrainerV1alpha1ClusterTrainingRuntime

    for runtime in objects(platform, "ClusterTrainingRuntime"):
        assert not misread(TrainerV1alpha1ClusterTrainingRuntime, runtime)


def test_a_pod_that_claims_all_of_a_node_has_all_that_the_node_has(platform: Platform) -> None:
    """Requests and claims of a job together are the group's devices, and each claim is one that can be allocated."""
    templates = named(platform, "ResourceClaimTemplate")
    for group in platform.node_groups:
        claimed = Counter[str]()
        for name in claims_of_runtime(platform, group.name):
            for request in templates[name]["spec"]["spec"]["devices"]["requests"]:
                claimed[request["exactly"]["deviceClassName"]] += request["exactly"]["count"]
        devices = devices_of(platform, group, CATALOGUE)
        assert claimed == {each.device_class: each.count for each in devices if each.device_class}
    for template in templates.values():
        assert (
            sum(each["exactly"]["count"] for each in template["spec"]["spec"]["devices"]["requests"]) <= LARGEST_CLAIM
        )


def test_the_runtime_of_a_group_requests_what_is_not_claimed(platform: Platform) -> None:
    """Trainer drops the claims of a TrainJob that says what it requests."""
    runtimes = named(platform, "ClusterTrainingRuntime")
    for group in platform.node_groups:
        if runtime := runtimes.get(f"trainway-torch-{group.name}"):
            (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
            (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
            requested = {d.resource: d.count for d in devices_of(platform, group, CATALOGUE) if not d.device_class}
            assert container["resources"].get("limits", {}) == requested


def claims_of_runtime(platform: Platform, group: str) -> list[str]:
    """The templates that jobs on the group's nodes claim by, and none twice by one name."""
    runtimes = named(platform, "ClusterTrainingRuntime")
    runtime = runtimes.get(f"trainway-torch-{group}", runtimes["trainway-torch"])
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    claims = pod.get("resourceClaims", [])
    (container,) = pod["containers"]
    assert [each["name"] for each in container.get("resources", {}).get("claims", [])] == [c["name"] for c in claims]
    assert len({each["name"] for each in claims}) == len(claims)
    return [each["resourceClaimTemplateName"] for each in claims]


def test_the_runtime_of_every_job_claims_nothing(platform: Platform) -> None:
    assert claims_of_runtime(platform, "no such group") == []


def test_every_namespace_has_the_templates_that_runtimes_name(platform: Platform) -> None:
    several = platform.model_copy(
        update={"teams": (*platform.teams, platform.teams[0].model_copy(update={"name": "b"}))}
    )
    there = {
        (each["metadata"]["namespace"], each["metadata"]["name"]) for each in objects(several, "ResourceClaimTemplate")
    }
    for group in several.node_groups:
        for name in claims_of_runtime(several, group.name):
            assert {("research", name), ("b", name)} <= there


def test_a_gpu_is_claimed_with_the_efa_devices_beside_it() -> None:
    templates = named(platform_of(kubernetes=WAYS[2], teams=[]), "ResourceClaimTemplate")
    assert set(templates) == {"gpu-8", "efa-32", "gpu-1-efa-4"}
    devices = templates["gpu-1-efa-4"]["spec"]["spec"]["devices"]
    assert [each["exactly"]["count"] for each in devices["requests"]] == [1, 4]
    assert devices["constraints"] == [{"requests": ["gpu", "efa"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}]


def test_gpus_that_share_an_efa_device_are_not_claimed_one_by_one_with_it() -> None:
    """Four EFA devices beside eight GPUs: the second claim would find its device taken."""
    groups = [{"name": "train", "instance_type": "p4d.24xlarge", "count": 1}]
    templates = named(platform_of(kubernetes=WAYS[2], teams=[], node_groups=groups), "ResourceClaimTemplate")
    assert set(templates) == {"gpu-8", "efa-4"}


def test_more_devices_than_a_claim_can_have_are_several_claims(tmp_path: Any) -> None:
    groups = [{"name": "train", "instance_type": NAME, "count": 1}]
    platform = platform_of(kubernetes=WAYS[2], teams=[], node_groups=groups)
    made = cluster_manifests(platform, catalogue_with(tmp_path / "catalogue"))
    runtime = next(each for name, each in made.items() if name.endswith("clustertrainingruntime-trainway-torch-train"))
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    claims = job["template"]["spec"]["template"]["spec"]["resourceClaims"]
    assert [each["resourceClaimTemplateName"] for each in claims] == ["gpu-16", "efa-32", "efa-32"]
    assert len({each["name"] for each in claims}) == 3


def test_a_team_that_may_not_borrow_claims_no_more_than_it_requests(platform: Platform) -> None:
    (hard,) = [each["spec"]["hard"] for each in objects(platform, "ResourceQuota")]
    ceilings = {name: int(count) for name, count in hard.items() if "requests." in name or "deviceclass" in name}
    owned = Counter[str]()
    for group, nodes in zip(platform.node_groups, (2, 1, 0, 0), strict=True):
        for device in devices_of(platform, group, CATALOGUE):
            claimed = f"{device.device_class}.deviceclass.resource.k8s.io/devices"
            owned[claimed if device.device_class else f"requests.{device.resource}"] += nodes * device.count
    assert ceilings == dict(owned)


@pytest.mark.parametrize("asked", [way for way in WAYS if "queues" not in way], ids=str)
def test_kueue_counts_every_device_of_every_group_by_the_name_that_jobs_are_charged_by(asked: dict[str, str]) -> None:
    play = {**GROUPS[1], "mig": "1g.5gb"} if asked.get("gpu_devices") == "operator" else GROUPS[1]
    platform = platform_of(kubernetes=asked, node_groups=[GROUPS[0], play], teams=[TEAM])
    (queue,) = objects(platform, "ClusterQueue")
    (of_team,) = queue["spec"]["resourceGroups"]
    quotas = {
        flavor["name"].rpartition("-network")[0]: {each["name"]: each["nominalQuota"] for each in flavor["resources"]}
        for flavor in of_team["flavors"]
    }
    gpus = {"nvidia.com/mig-1g.5gb": "56"} if play.get("mig") else {"nvidia.com/gpu": "8"}
    assert gpus.items() <= quotas["play"].items()
    assert {"nvidia.com/gpu": "16", EFA_RESOURCE: "64"}.items() <= quotas["train"].items()
    assert quotas["play"]["nvidia.com/gpu"] == ("0" if play.get("mig") else "8")
    assert set(of_team["coveredResources"]) == {"cpu", "memory", "nvidia.com/gpu", EFA_RESOURCE, *gpus}


def test_kueue_is_told_by_which_name_claimed_efa_devices_are_counted() -> None:
    values = yaml.safe_load((ROOT / "delivery" / "values" / "kueue.yaml").read_text(encoding="utf-8"))
    told = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    (mapping,) = told["resources"]["deviceClassMappings"]
    assert (mapping["name"], mapping["deviceClassNames"]) == (EFA_RESOURCE, [EFA_CLASS])


def test_the_mig_manager_is_told_how_to_divide_each_group_by_the_label_of_its_nodes() -> None:
    groups = [
        {"name": "whole", "instance_type": "p5.48xlarge", "count": 1},
        {"name": "small", "instance_type": "p5.48xlarge", "count": 1, "mig": "1g.10gb"},
        {"name": "other", "instance_type": "p4d.24xlarge", "count": 1, "mig": "1g.10gb"},
    ]
    platform = platform_of(kubernetes={"gpu_devices": "operator"}, node_groups=groups, teams=[])
    told = cluster_manifests(platform, CATALOGUE)["values/gpu-operator"]["migManager"]["config"]
    assert told["default"] == "all-disabled"
    assert yaml.safe_load(told["data"]["config.yaml"])["mig-configs"] == {
        "all-disabled": [{"devices": "all", "mig-enabled": False}],
        "trainway-small": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}],
        "trainway-other": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 4}}],
    }
