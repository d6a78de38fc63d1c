"""A workspace is a Job that Kubernetes and the team's queue take, with the share of a node that it asks for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.kubernetes.platforms import PLATFORMS, hand_off_of, platform_named
from tests.manifests.platforms import CATALOGUE, platform_of
from tests.seams.kubernetes.reader import read
from trainway.extensions.workspace import Workspace, WorkspaceRequest, define, render_workspace
from trainway.launch.kubernetes import as_yaml
from trainway.manifests.device_claims import claim_templates
from trainway.manifests.namespace import namespaces
from trainway.spec.errors import UsageError
from trainway.spec.platform import Platform

IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/atlas/training@sha256:" + 64 * "0"
DIVIDED = [
    {"name": "train", "instance_type": "p5.48xlarge", "count": 4, "max_count": 8},
    {"name": "play", "instance_type": "p4d.24xlarge", "count": 1, "mig": "1g.5gb"},
]


def workspace_on(platform: Platform, **options: Any) -> Workspace:
    team = {"team": platform.teams[0].name} if platform.teams else {}
    return define(
        hand_off_of(platform), lambda _: IMAGE, CATALOGUE, WorkspaceRequest(**{"owner": "ada", **team, **options})
    )


def job_of(workspace: Workspace) -> dict[str, Any]:
    return render_workspace(workspace, CATALOGUE, "secret")[-1]


def container_of(workspace: Workspace) -> dict[str, Any]:
    (container,) = job_of(workspace)["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


@pytest.mark.parametrize("platform", PLATFORMS)
def test_kubernetes_takes_it(platform: str) -> None:
    accelerators = 8 if platform == "claims" else 1
    documents = render_workspace(workspace_on(platform_named(platform), accelerators=accelerators), CATALOGUE, "secret")
    for document in documents:
        version = platform_named(platform).kubernetes_or_default.version
        assert read(document, version) == []


@pytest.mark.parametrize(
    ("platform", "labels", "scheduler"),
    [
        ("kueue", {}, None),
        ("kai", {"kai.scheduler/queue": "research"}, "kai-scheduler"),
        ("run-ai", {"runai/queue": "research"}, "runai-scheduler"),
        ("governance", {"kueue.x-k8s.io/queue-name": "hyperpod-ns-research-localqueue"}, None),
    ],
)
def test_it_is_in_its_teams_namespace_and_queue(platform: str, labels: dict[str, str], scheduler: str | None) -> None:
    job = job_of(workspace_on(platform_named(platform)))
    assert job["metadata"]["namespace"] == namespaces(platform_named(platform))[0]
    assert labels.items() <= job["metadata"]["labels"].items()
    assert job["spec"]["template"]["spec"].get("schedulerName") == scheduler


def test_it_has_one_gpu_and_its_share_of_the_node_and_no_efa() -> None:
    resources = container_of(workspace_on(platform_named("kueue")))["resources"]
    assert resources["limits"] == {"nvidia.com/gpu": "1", "memory": resources["requests"]["memory"]}
    node = CATALOGUE["p5.48xlarge"]
    assert 0.7 * node.vcpus / 8 < int(resources["requests"]["cpu"]) < node.vcpus / 8
    assert 0.7 * node.memory_gib / 8 < int(resources["requests"]["memory"].removesuffix("Gi")) < node.memory_gib / 8


def test_where_gpus_are_divided_it_has_a_fraction() -> None:
    platform = platform_of(teams=[], node_groups=DIVIDED, kubernetes={"gpu_devices": "operator"})
    workspace = workspace_on(platform)
    assert workspace.group.name == "play"
    assert container_of(workspace)["resources"]["limits"]["nvidia.com/mig-1g.5gb"] == "1"
    whole = workspace_on(platform, group="train", accelerators=2)
    assert container_of(whole)["resources"]["limits"]["nvidia.com/gpu"] == "2"


def test_where_gpus_are_claimed_it_names_templates_that_its_namespace_has() -> None:
    platform = platform_of(
        teams=[],
        node_groups=[{"name": "train", "instance_type": "p5.48xlarge", "count": 1}],
        kubernetes={"gpu_devices": "dra"},
    )
    (namespace,) = namespaces(platform)
    there = {template["metadata"]["name"] for template in claim_templates(platform, CATALOGUE, namespace)}
    for accelerators in (1, 3, 8):
        pod = job_of(workspace_on(platform, accelerators=accelerators))["spec"]["template"]["spec"]
        assert {each["resourceClaimTemplateName"] for each in pod["resourceClaims"]} <= there
        assert {each["name"] for each in pod["resourceClaims"]} == {
            each["name"] for each in pod["containers"][0]["resources"]["claims"]
        }


def test_on_nodes_without_accelerators_it_is_small() -> None:
    platform = platform_of(teams=[], node_groups=[{"name": "cpu", "instance_type": "m7i.8xlarge", "count": 1}])
    resources = container_of(workspace_on(platform))["resources"]
    assert resources == {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "16Gi"}}


def test_it_is_on_the_smallest_nodes_that_have_as_many_accelerators() -> None:
    platform = platform_of(
        teams=[],
        node_groups=[
            {"name": "train", "instance_type": "p5.48xlarge", "count": 1},
            {"name": "some", "instance_type": "g6e.12xlarge", "count": 1},
            {"name": "one", "instance_type": "g6.8xlarge", "count": 1},
            {"name": "none", "instance_type": "m7i.8xlarge", "count": 1},
        ],
    )
    chosen = [workspace_on(platform, accelerators=number).group.name for number in (1, 2, 4, 8)]
    assert chosen == ["one", "some", "some", "train"]


def test_its_shared_memory_is_half_of_its_memory_or_as_told() -> None:
    for told, size in ((None, 102), (8, 8)):
        workspace = workspace_on(platform_named("kueue"), shared_memory_gib=told)
        volumes = {each["name"]: each for each in job_of(workspace)["spec"]["template"]["spec"]["volumes"]}
        assert volumes["shared-memory"]["emptyDir"] == {"medium": "Memory", "sizeLimit": f"{size}Gi"}
        assert size <= workspace.devices.memory_gib


def test_a_workspace_that_is_never_idle_is_never_ended_for_it() -> None:
    (script, *settings) = container_of(workspace_on(platform_named("kueue"), idle_minutes=0))["command"][2:]
    assert "jupyterlab" in script and settings == ["workspace", "--ServerApp.port=8888"]


def test_it_ends_by_itself_and_is_not_root() -> None:
    job = job_of(workspace_on(platform_named("kueue"), hours=2))
    assert job["spec"]["activeDeadlineSeconds"] == 7200
    pod = job["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


def test_the_token_is_in_the_secret_and_nowhere_else() -> None:
    secret, job = render_workspace(workspace_on(platform_named("kueue")), CATALOGUE, "very-secret")
    assert secret["stringData"] == {"token": "very-secret"}
    assert "very-secret" not in as_yaml([job])


def test_home_is_the_owners_and_an_index_is_pips() -> None:
    workspace = workspace_on(
        platform_named("kueue"), owner="Ada.Lovelace@example", index="https://index.example/simple"
    )
    environment = {each["name"]: each.get("value") for each in container_of(workspace)["env"]}
    assert workspace.name == "workspace-ada-lovelace-example"
    assert environment["HOME"] == "/fsx/workspaces/ada-lovelace-example"
    assert environment["PIP_INDEX_URL"] == "https://index.example/simple"
    assert '"fsx": "/fsx"' in str(environment["TRAINWAY_LOCATIONS"])


@pytest.mark.parametrize(
    ("platform", "options", "why"),
    [
        ("kueue", {"accelerators": 9}, "has 8 accelerators, and it would have 9"),
        ("kueue", {"accelerators": 0}, "has 8 accelerators, and it would have 0"),
        ("kueue", {"hours": 0}, "choose 1 to 168"),
        ("kueue", {"hours": 2, "idle_minutes": 121}, "choose 0 to 120"),
        ("kueue", {"shared_memory_gib": 10_000}, "with --shared-memory"),
        ("kueue", {"hours": 169}, "choose 1 to 168"),
        ("kueue", {"group": "absent"}, "no node group absent"),
        ("kueue", {"team": "nobody"}, "use one of research, product"),
        ("kueue", {"owner": "!"}, "no letter"),
        ("nobody", {"priority": "high"}, "no teams, and so no queue"),
        ("kueue", {"team": None}, "the launch names none"),
    ],
)
def test_what_there_is_not_is_explained(platform: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        render_workspace(workspace_on(platform_named(platform), **options), CATALOGUE, "secret")


def test_under_slurm_there_is_srun() -> None:
    hand_off = hand_off_of(platform_named("nobody"), orchestrator="hyperpod-slurm")
    without = hand_off.model_copy(update={"cluster": hand_off.cluster.model_copy(update={"namespaces": ()})})
    with pytest.raises(UsageError, match="srun --gres=gpu:1"):
        define(without, lambda _: IMAGE, CATALOGUE, WorkspaceRequest("ada"))
