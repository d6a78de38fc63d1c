"""What the system nodes carry is counted in full, and a node too small for it is told before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from tests.people import with_people
from tests.representatives import PLATFORMS, with_representatives
from tests.synthesis import EXAMPLES, ROOT, all_resources, templates_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.kubernetes.addons import addon_names
from trainway.spec.kubernetes.charts import chart_names
from trainway.spec.kubernetes.rules import system_nodes_carry_their_pods
from trainway.spec.kubernetes.system_pods import (
    Share,
    SystemFacts,
    SystemPods,
    find_room,
    misfit,
    room_on,
    system_facts,
    system_pods,
)
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.sections.hyperpod import HyperPod
from trainway.spec.sections.kubernetes import Kubernetes
from trainway.spec.sections.orchestrator import Orchestrator

CATALOGUE = load_catalogue()
FILES = {file.stem: file for file in EXAMPLES}
GROUPS = [
    {"name": "train", "instance_type": "p5.48xlarge", "count": 1},
    # For Karpenter, which is switched on with all the rest.
    {"name": "data", "instance_type": "m7i.8xlarge", "count": 0, "max_count": 2},
]
TEAMS = [{"name": "research"}]


def switched_on(section: type[BaseModel]) -> dict[str, bool]:
    """Every key of a section that is yes or no, at yes; a new key with an add-on of its own is among them."""
    return {name: True for name, field in section.model_fields.items() if field.annotation is bool}


EVERYTHING: list[dict[str, Any]] = [
    {"orchestrator": "eks", "teams": TEAMS, "kubernetes": {**switched_on(Kubernetes), "gpu_devices": "operator"}},
    {"orchestrator": "eks", "teams": TEAMS, "kubernetes": {**switched_on(Kubernetes), "queues": "kai"}},
    {
        "orchestrator": "hyperpod-eks",
        "teams": TEAMS,
        # HyperPod pulls images, scales groups, and collects metrics itself.
        "kubernetes": {
            key: on
            for key, on in switched_on(Kubernetes).items()
            if key not in ("parallel_image_pull", "autoscaling", "observability")
        },
        "hyperpod": switched_on(HyperPod),
    },
]


def platform(instance_type: str = "m7i.2xlarge", count: int = 2, **sections: Any) -> Platform:
    base = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"], "orchestrator": "eks", "node_groups": GROUPS}
    nodes = {"system_nodes": {"instance_type": instance_type, "count": count}}
    return Platform.model_validate({**base, "kubernetes": nodes, **sections})


def installed(file: Path) -> set[str]:
    """The names of the add-ons in a platform's templates."""
    addons = all_resources(templates_of(file), "AWS::EKS::Addon").values()
    return {addon["AddonName"] for addon in addons}


@pytest.mark.parametrize("name", with_representatives(FILES, PLATFORMS))
def test_every_addon_and_chart_of_an_example_is_counted(name: str) -> None:
    file = FILES[name]
    example = load_platform(file)
    addons = installed(file)
    assert set(addon_names(example)) == addons
    assert addons <= set(system_facts().addons)
    assert set(chart_names(example, CATALOGUE)) <= set(system_facts().charts)


@pytest.mark.parametrize("sections", EVERYTHING, ids=lambda sections: sections["orchestrator"])
def test_every_addon_that_a_file_can_ask_for_is_counted(sections: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    asked = platform(**sections).model_dump(mode="json", exclude_unset=True)
    file.write_text(yaml.safe_dump(with_people(asked)), encoding="utf-8")
    assert set(addon_names(load_platform(file))) == installed(file)


def test_there_is_an_entry_for_each_chart_and_for_no_other() -> None:
    mirror = yaml.safe_load((ROOT / "delivery" / "mirror.yaml").read_text(encoding="utf-8"))
    assert set(system_facts().charts) == {chart["chart"] for chart in mirror["charts"]}


def test_there_is_an_entry_for_each_addon_and_for_no_other() -> None:
    asked = [addon_names(platform(**sections)) for sections in EVERYTHING]
    assert set(system_facts().addons) == {name for names in asked for name in names}


def test_the_gpu_operators_own_pods_are_counted_and_those_on_gpu_nodes_are_not() -> None:
    without, with_it = (
        {pods.name for pods in system_pods(platform(kubernetes={"gpu_devices": each}), CATALOGUE)}
        for each in ("plugin", "operator")
    )
    assert with_it - without == {
        "gpu-operator",
        "gpu-operator-node-feature-discovery-master",
        "gpu-operator-node-feature-discovery-gc",
    }


def test_kueue_has_the_replicas_that_the_delivery_gives_it() -> None:
    values = yaml.safe_load((ROOT / "delivery" / "values" / "kueue.yaml").read_text(encoding="utf-8"))
    (pods,) = system_facts().charts["kueue"].pods
    assert pods.replicas == values["controllerManager"]["replicas"]


def test_kais_parts_have_the_replicas_that_the_delivery_gives_them() -> None:
    values = yaml.safe_load((ROOT / "delivery" / "values" / "kai-scheduler.yaml").read_text(encoding="utf-8"))
    pods = system_facts().charts["kai-scheduler"].pods
    assert {each.replicas for each in pods} == {values["operator"]["replicaCount"]}


@pytest.mark.parametrize("file", sorted((ROOT / "delivery" / "values").glob("*.yaml")), ids=lambda file: file.stem)
def test_no_delivered_value_changes_what_pods_ask_for(file: Path) -> None:
    """Whoever adds such a value writes it into system_pods.yaml, and excepts the file here."""
    assert ("requests:" in file.read_text(encoding="utf-8")) == (
        file.stem in ("cluster-autoscaler", "kuberay-operator")
    )


def test_slurm_has_no_system_nodes() -> None:
    slurm = platform(orchestrator="hyperpod-slurm", kubernetes=None)
    assert system_pods(slurm, CATALOGUE) == ()
    assert list(system_nodes_carry_their_pods(slurm, CATALOGUE)) == []


def facts() -> dict[str, Any]:
    return system_facts().model_dump(mode="json")


def test_an_entry_without_a_page_is_refused() -> None:
    document = facts()
    document["addons"]["coredns"]["sources"] = []
    with pytest.raises(ValidationError, match=r"addons\.coredns\.sources"):
        SystemFacts.model_validate(document)


@pytest.mark.parametrize("name", ["eks-pod-identity-agent", "amazon-sagemaker-hyperpod-training-operator"])
def test_nothing_asked_for_must_be_explained(name: str) -> None:
    document = facts()
    document["addons"][name]["note"] = None
    with pytest.raises(ValidationError, match="no note says why"):
        SystemFacts.model_validate(document)


@pytest.mark.parametrize(("kind", "replicas"), [("daemonset", 2), ("deployment", None)])
def test_deployments_alone_have_replicas(kind: str, replicas: int | None) -> None:
    document = {"name": "x", "kind": kind, "replicas": replicas, "cpu_millicores": 1, "memory_mib": 1}
    with pytest.raises(ValidationError, match="a deployment has replicas"):
        SystemPods.model_validate(document)


@pytest.mark.parametrize(
    ("instance_type", "cpu", "memory"),
    [
        # 2,000 − 60 − 10; 8,192 − 615 − (255 + 11 × 29) − 100.
        ("m7i.large", 1930, 6903),
        # 8,000 − 60 − 10 − 2 × 5 − 4 × 2.5; 32,768 − 2,458 − (255 + 11 × 58) − 100.
        ("m7i.2xlarge", 7910, 29317),
    ],
)
def test_what_a_node_has_for_pods(instance_type: str, cpu: int, memory: int) -> None:
    assert room_on(CATALOGUE[instance_type], Orchestrator.EKS) == Share(32, cpu, memory)


def test_a_small_node_of_hyperpods_cluster_has_no_address_for_more_pods() -> None:
    """Three interfaces of ten addresses, one of each its own, and two pods in the host's network."""
    assert room_on(CATALOGUE["m7i.large"], Orchestrator.HYPERPOD_EKS).pods == 3 * 9 + 2


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_fit(file: Path) -> None:
    assert list(system_nodes_carry_their_pods(load_platform(file), CATALOGUE)) == []


@pytest.mark.parametrize("sections", EVERYTHING, ids=lambda sections: sections["orchestrator"])
def test_the_default_nodes_carry_everything_that_can_be_asked_for(sections: dict[str, Any]) -> None:
    assert misfit(platform(**{"kubernetes": None, **sections}), CATALOGUE) is None


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (1, "ask for 2,270 millicores of CPU, and the one node gives 1,930"),
        (2, "ask for 2,270 millicores of CPU, and when the other is lost one node gives 1,930"),
    ],
)
def test_what_does_not_fit_is_told_with_what_would(count: int, told: str) -> None:
    found = misfit(platform("m7i.large", count, teams=TEAMS), CATALOGUE)
    assert found is not None
    assert told in found.reason
    assert found.remedy == "use m7i.xlarge, or write `count: 3`"


@pytest.mark.parametrize(("instance_type", "count"), [("m7i.large", 3), ("m7i.xlarge", 1), ("m7i.xlarge", 2)])
def test_the_remedy_is_one(instance_type: str, count: int) -> None:
    assert misfit(platform(instance_type, count, teams=TEAMS), CATALOGUE) is None


def test_pods_of_nothing_fill_a_node_too() -> None:
    idle = [SystemPods(name="idle", kind="deployment", replicas=32, cpu_millicores=0, memory_mib=0)]
    room = Share(32, 1000, 1000)
    assert find_room(idle, room, 1) == ()
    assert find_room([*idle, *(one(name="one", cpu=1),)], room, 1) == ("idle",)


def test_a_node_that_is_exactly_full_is_not_too_small() -> None:
    pods = [one("daemonset", "agent", 100, 50), one(cpu=300, memory=100, replicas=3)]
    assert find_room(pods, Share(4, 1000, 350), 1) == ()
    assert find_room(pods, Share(3, 1000, 350), 1) == ("pod",)
    assert find_room(pods, Share(4, 999, 350), 1) == ("pod",)
    assert find_room(pods, Share(4, 1000, 349), 1) == ("pod",)


def test_what_would_fit_together_may_fit_on_no_node() -> None:
    assert find_room([one(cpu=600, replicas=3)], Share(10, 1000, 1000), 2) == ("pod",)


def test_daemons_that_fill_every_node_leave_no_remedy_but_a_larger_type() -> None:
    pods = [one("daemonset", "agent", 1001)]
    assert find_room(pods, Share(10, 1000, 1000), 1) == find_room(pods, Share(10, 1000, 1000), 9) == ("agent",)


@pytest.mark.parametrize("instance_type", ["p5.48xlarge", "m7i.huge"])
def test_a_type_that_another_rule_reports_raises_nothing(instance_type: str) -> None:
    assert list(system_nodes_carry_their_pods(platform(instance_type), CATALOGUE)) == []


def test_an_unknown_type_of_a_node_group_raises_nothing() -> None:
    unknown = [{"name": "train", "instance_type": "p5.huge", "count": 1}]
    assert list(system_nodes_carry_their_pods(platform("m7i.large", node_groups=unknown), CATALOGUE)) == []


def one(kind: str = "deployment", name: str = "pod", cpu: int = 0, memory: int = 0, replicas: int = 1) -> SystemPods:
    document = {"name": name, "kind": kind, "cpu_millicores": cpu, "memory_mib": memory}
    return SystemPods.model_validate(document | ({"replicas": replicas} if kind == "deployment" else {}))


REQUESTS = st.integers(0, 1000)
PODS = st.lists(
    st.builds(one, st.sampled_from(["daemonset", "deployment"]), st.just("pod"), REQUESTS, REQUESTS, st.integers(1, 4)),
    max_size=8,
)
ROOMS = st.builds(Share, st.integers(1, 40), st.integers(0, 4000), st.integers(0, 4000))


@given(pods=PODS, room=ROOMS, nodes=st.integers(1, 5))
def test_what_fits_asks_for_no_more_than_there_is(pods: list[SystemPods], room: Share, nodes: int) -> None:
    asked = Share(0, 0, 0)
    for each in pods:
        asked += each.each * (each.replicas or nodes)
    fits = find_room(pods, room, nodes) == ()
    assert (room * nodes).holds(asked) or not fits
    if nodes == 1:
        assert fits == room.holds(asked)


@pytest.mark.parametrize("family", ["c6i", "c7i", "m6i", "m7i", "m8i", "r7i"])
@pytest.mark.parametrize("count", [1, 2])
def test_each_remedy_helps(family: str, count: int) -> None:
    found = misfit(platform(f"{family}.large", count, teams=TEAMS), CATALOGUE)
    assert found is not None
    larger, more = found.remedy.split(", or ")
    assert misfit(platform(larger.removeprefix("use "), count, teams=TEAMS), CATALOGUE) is None
    nodes = int(more.removeprefix("write `count: ").removesuffix("`"))
    assert misfit(platform(f"{family}.large", nodes, teams=TEAMS), CATALOGUE) is None
    assert misfit(platform(f"{family}.large", nodes - 1, teams=TEAMS), CATALOGUE) is not None
