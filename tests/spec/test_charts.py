"""Each chart is installed where the platform has a use for it, and nowhere else."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.data_files import read_yaml
from tests.synthesis import ROOT
from trainway.manifests.chart_values import NODES_LABEL, chart_values
from trainway.spec.facts.catalogue import Catalogue, load_catalogue
from trainway.spec.kubernetes.charts import chart_names
from trainway.spec.platform import Platform

SHIPPED = load_catalogue()
# Every accelerated type of the catalogue has EFA; this one would not.
NO_EFA = SHIPPED["g5.8xlarge"].model_copy(update={"name": "g0.xlarge", "interfaces": SHIPPED["m7i.large"].interfaces})
CATALOGUE = Catalogue({**SHIPPED, NO_EFA.name: NO_EFA})
MIRROR = read_yaml(ROOT / "delivery" / "mirror.yaml")
# With EFA and without, of each vendor and of none.
TYPES = ("p5.48xlarge", "g0.xlarge", "trn2.48xlarge", "m7i.2xlarge")


def platform(*instance_types: str, orchestrator: str = "eks", most: int = 1, **sections: Any) -> Platform:
    groups = [
        {"name": f"group{at}", "instance_type": name, "count": 1, "max_count": most}
        for at, name in enumerate(instance_types)
    ]
    base = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"], "node_groups": groups}
    return Platform.model_validate({**base, "orchestrator": orchestrator, **sections})


def charts(*instance_types: str, **sections: Any) -> tuple[str, ...]:
    """Return the charts of a platform without a collector, unless the sections say otherwise."""
    return chart_names(platform(*instance_types, **{"observability": {"metrics": "none"}, **sections}), CATALOGUE)


TEAMS: dict[str, Any] = {"teams": [{"name": "research"}]}
RUN_AI: dict[str, Any] = {
    "teams": [{"name": "research"}],
    "kubernetes": {"run_ai": {"control_plane": "https://acme.run.ai", "secret": "run-ai"}, "ray_operator": True},
}
LAST: dict[str, Any] = {"kubernetes": {"mpi_operator": True, "ray_operator": True}}


@pytest.mark.parametrize(
    ("instance_type", "plugins"),
    [
        ("p5.48xlarge", ("aws-efa-k8s-device-plugin", "nvidia-device-plugin")),
        ("g0.xlarge", ("nvidia-device-plugin",)),
        ("trn2.48xlarge", ("aws-efa-k8s-device-plugin", "neuron-helm-chart")),
        ("m7i.2xlarge", ()),
    ],
)
def test_a_device_plugin_is_installed_where_a_node_group_has_its_device(
    instance_type: str, plugins: tuple[str, ...]
) -> None:
    assert charts(instance_type) == (*plugins, "kubeflow-trainer")


def test_one_group_with_the_device_is_enough() -> None:
    assert charts("m7i.2xlarge", "g0.xlarge", "trn2.48xlarge") == (
        "aws-efa-k8s-device-plugin",
        "nvidia-device-plugin",
        "neuron-helm-chart",
        "kubeflow-trainer",
    )


@pytest.mark.parametrize(
    ("asked", "managers"),
    [
        ({}, ("aws-efa-k8s-device-plugin", "nvidia-device-plugin", "neuron-helm-chart")),
        ({"gpu_devices": "dra"}, ("aws-dranet", "dra-driver-nvidia-gpu", "neuron-helm-chart")),
        ({"efa_devices": "dra"}, ("aws-dranet", "nvidia-device-plugin", "neuron-helm-chart")),
        (
            {"gpu_devices": "dra", "efa_devices": "plugin"},
            ("aws-efa-k8s-device-plugin", "dra-driver-nvidia-gpu", "neuron-helm-chart"),
        ),
        ({"gpu_devices": "operator"}, ("aws-efa-k8s-device-plugin", "gpu-operator", "neuron-helm-chart")),
        ({"gpu_devices": "operator", "efa_devices": "dra"}, ("aws-dranet", "gpu-operator", "neuron-helm-chart")),
    ],
    ids=str,
)
def test_one_chart_gives_away_each_kind_of_device(asked: dict[str, str], managers: tuple[str, ...]) -> None:
    assert charts(*TYPES, kubernetes=asked) == (*managers, "kubeflow-trainer")
    assert charts("m7i.2xlarge", kubernetes=asked) == ("kubeflow-trainer",)


def test_kueue_is_installed_where_teams_share_an_eks_cluster() -> None:
    assert charts("g0.xlarge", **TEAMS) == ("nvidia-device-plugin", "kueue", "kubeflow-trainer")
    assert "kueue" not in charts("g0.xlarge")
    assert "kueue" not in charts("g0.xlarge", **TEAMS, kubernetes={"queues": "none"})
    assert "kueue" not in charts("p5.48xlarge", orchestrator="hyperpod-eks", **TEAMS)


def test_kai_is_installed_in_kueues_place_where_it_is_asked_for() -> None:
    kai: dict[str, Any] = {"kubernetes": {"queues": "kai"}}
    assert charts("g0.xlarge", **TEAMS, **kai) == ("nvidia-device-plugin", "kai-scheduler", "kubeflow-trainer")
    assert "kai-scheduler" not in charts("g0.xlarge", **TEAMS)
    assert "kai-scheduler" not in charts("p5.48xlarge", orchestrator="hyperpod-eks", **TEAMS)


@pytest.mark.parametrize("orchestrator", ["eks", "hyperpod-eks"])
def test_the_operators_of_mpi_and_ray_are_installed_last_where_they_are_asked_for(orchestrator: str) -> None:
    names = [name for name in charts("p5.48xlarge", orchestrator=orchestrator, **LAST) if name != "training-operators"]
    assert names[-3:] == ["kubeflow-trainer", "mpi-operator", "kuberay-operator"]
    assert not {"mpi-operator", "kuberay-operator"} & set(charts("p5.48xlarge", orchestrator=orchestrator))


def test_kubeflows_training_operator_is_installed_on_hyperpod_and_on_eks_where_it_is_asked_for() -> None:
    key = "pytorch_operator"
    assert "training-operators" in charts("p5.48xlarge", orchestrator="hyperpod-eks")
    assert "training-operators" not in charts("p5.48xlarge", orchestrator="hyperpod-eks", kubernetes={key: False})
    assert "training-operators" not in charts("p5.48xlarge")
    assert charts("p5.48xlarge", kubernetes={key: True})[-1] == "training-operators"


def test_dcgm_is_exported_on_gpus_that_a_collector_of_eks_scrapes_however_pods_get_them() -> None:
    for devices in ("plugin", "dra", "operator"):
        settings = {"gpu_devices": devices, "observability": True}
        assert "dcgm-exporter" in charts("p5.48xlarge", kubernetes=settings)
        assert "dcgm-exporter" not in charts("p5.48xlarge", kubernetes=settings | {"observability": False})
    assert "dcgm-exporter" not in charts("trn2.48xlarge", "m7i.8xlarge", kubernetes={"observability": True})


def test_a_platform_has_a_collector_without_a_key() -> None:
    assert "dcgm-exporter" in charts("p5.48xlarge", observability={})
    assert "dcgm-exporter" not in charts("p5.48xlarge", observability={"metrics": "none"})


def test_trainer_is_installed_unless_the_file_says_otherwise() -> None:
    assert charts("m7i.8xlarge") == ("kubeflow-trainer",)
    assert charts("m7i.8xlarge", kubernetes={"trainer": False}) == ()


def test_hyperpods_own_chart_comes_first_and_only_there() -> None:
    assert charts("p5.48xlarge", orchestrator="hyperpod-eks")[0] == "hyperpod-helm-chart"
    assert "hyperpod-helm-chart" not in charts("p5.48xlarge")


def test_run_ais_cluster_comes_last_and_without_another_scheduler() -> None:
    assert charts("p5.48xlarge", **RUN_AI)[-2:] == ("kuberay-operator", "runai-cluster")
    assert "kueue" not in charts("p5.48xlarge", **RUN_AI)
    theirs = {"queues": "run-ai"}
    assert "runai-cluster" not in charts("p5.48xlarge", **TEAMS, kubernetes=theirs)


def test_slurm_installs_no_chart() -> None:
    assert charts(*TYPES, orchestrator="hyperpod-slurm", **TEAMS) == ()


def test_every_chart_that_can_be_chosen_is_listed_in_the_order_of_installation_and_the_other_way_round() -> None:
    listed = [chart["chart"] for chart in MIRROR["charts"]]
    chosen = [charts(*TYPES, orchestrator=each, **TEAMS, **LAST) for each in ("eks", "hyperpod-eks")]
    chosen.append(charts(*TYPES, **TEAMS, kubernetes={"queues": "kai"}))
    chosen += [charts(*TYPES, kubernetes={"gpu_devices": each}) for each in ("dra", "operator")]
    chosen.append(charts(*TYPES, **TEAMS, most=4))
    chosen.append(charts(*TYPES, **RUN_AI))
    chosen.append(charts(*TYPES, orchestrator="hyperpod-eks", hyperpod={"task_governance": False}, **RUN_AI))
    chosen.append(charts(*TYPES, kubernetes={"observability": True}))
    assert set().union(*chosen) == set(listed)
    for names in chosen:
        assert list(names) == [name for name in listed if name in names]


@pytest.mark.parametrize(
    ("instance_type", "orchestrator"), list(product(TYPES, ["eks", "hyperpod-eks", "hyperpod-slurm"]))
)
@pytest.mark.parametrize(
    "sections",
    [
        {},
        {**TEAMS, **LAST},
        {"network": "closed"},
        {"network": "closed", "kubernetes": {"gpu_devices": "dra"}},
        {"network": "closed", "kubernetes": {"gpu_devices": "operator"}},
    ],
    ids=str,
)
def test_the_repositories_of_the_mirror_are_those_of_the_chosen_charts_and_their_images(
    instance_type: str, orchestrator: str, sections: dict[str, Any]
) -> None:
    from stacks.constructs.delivery.registry import mirrored_names

    of = platform(instance_type, orchestrator=orchestrator, **sections)
    chosen = [chart for chart in MIRROR["charts"] if chart["chart"] in chart_names(of, CATALOGUE)]
    expected = {value["image"] for chart in chosen for value in chart["image_values"]}
    expected |= {f"charts/{chart['chart']}" for chart in chosen if "manifest" not in chart}
    names = mirrored_names(chart_names(of, CATALOGUE))
    assert len(names) == len(set(names))
    assert set(names) == expected


def test_a_trainium_platform_mirrors_the_neuron_plugin_and_not_nvidias() -> None:
    from stacks.constructs.delivery.registry import mirrored_names

    of = platform("trn2.48xlarge")
    names = mirrored_names(chart_names(of, CATALOGUE))
    assert {"neuron-device-plugin", "charts/neuron-helm-chart"} <= set(names)
    assert not any("nvidia" in name for name in names)


def test_device_plugins_are_given_the_groups_that_have_their_device() -> None:
    values = chart_values(platform(*TYPES, observability={"metrics": "none"}), CATALOGUE)
    assert list(values) == ["aws-efa-k8s-device-plugin", "nvidia-device-plugin", "neuron-helm-chart"]
    labels = values["aws-efa-k8s-device-plugin"]["supportedInstanceLabels"]
    assert labels == {"keys": [NODES_LABEL], "values": ["group0", "group2"]}
    assert nodes(values["nvidia-device-plugin"]["affinity"]) == ["group0", "group1"]
    assert nodes(values["neuron-helm-chart"]["devicePlugin"]["affinity"]) == ["group2"]


def test_dra_drivers_are_given_the_groups_that_have_their_device() -> None:
    values = chart_values(platform(*TYPES, kubernetes={"gpu_devices": "dra"}), CATALOGUE)
    labels = values["aws-dranet"]["supportedInstanceLabels"]
    assert labels == {"keys": [NODES_LABEL], "values": ["group0", "group2"]}
    assert nodes(values["dra-driver-nvidia-gpu"]["kubeletPlugin"]["affinity"]) == ["group0", "group1"]


def test_the_gpu_operator_looks_for_gpus_where_there_are_some() -> None:
    """Its other pods go to nodes where this one has found a GPU."""
    values = chart_values(platform(*TYPES, kubernetes={"gpu_devices": "operator"}), CATALOGUE)
    assert nodes(values["gpu-operator"]["node-feature-discovery"]["worker"]["affinity"]) == ["group0", "group1"]


@pytest.mark.parametrize("gpu_devices", ["plugin", "dra", "operator"])
@pytest.mark.parametrize("instance_type", TYPES)
def test_only_chosen_charts_have_values(instance_type: str, gpu_devices: str) -> None:
    of = platform(instance_type, **TEAMS, kubernetes={"mpi_operator": True, "gpu_devices": gpu_devices})
    required = {chart["chart"] for chart in MIRROR["charts"] if chart.get("platform_values") == "required"}
    assert set(chart_values(of, CATALOGUE)) == required & set(chart_names(of, CATALOGUE))
    assert chart_values(platform(instance_type, orchestrator="hyperpod-slurm"), CATALOGUE) == {}


def nodes(affinity: dict[str, Any]) -> list[str]:
    """The node groups that an affinity allows."""
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    assert (expression["key"], expression["operator"]) == (NODES_LABEL, "In")
    allowed: list[str] = expression["values"]
    return allowed
