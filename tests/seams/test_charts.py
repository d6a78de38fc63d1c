"""Every chart, as Helm renders it for every example and shape, uses the mirror and runs on the right nodes."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.seams.charts.__main__ import facts as rendered_facts
from tests.seams.charts.facts import platform_problems, read_facts, remembered
from tests.seams.charts.installed import Installed, installed_charts, merged, mirror
from tests.seams.charts.values_of_charts import own_values, unknown_keys
from tests.seams.seam import Planted, Reading, Seam
from tests.seams.shapes import kubernetes_platforms
from tests.synthesis import ROOT

Facts = dict[str, Any]
PLATFORMS = kubernetes_platforms()


@pytest.mark.parametrize("platform", PLATFORMS.values(), ids=PLATFORMS)
def test_the_charts_of_a_platform_run_from_the_mirror_and_on_its_nodes(platform) -> None:
    assert platform_problems(platform, read_facts()) == []


def test_every_chart_was_rendered_at_the_version_that_is_pinned() -> None:
    pinned = {each["chart"]: each["version"] for each in mirror()["charts"] if not each.get("requires_login")}
    assert {name: each["pinned"] for name, each in read_facts().items()} == pinned


def test_no_render_is_kept_that_no_platform_has() -> None:
    current = {(each.chart, each.digest) for platform in PLATFORMS.values() for each in installed_charts(platform)}
    assert {(name, digest) for name, each in read_facts().items() for digest in each["renders"]} == current


def test_a_chart_that_differs_from_its_pin_says_so_on_the_page_of_what_is_unproven() -> None:
    page = (ROOT / "docs/unproven.md").read_text(encoding="utf-8")
    for name, each in read_facts().items():
        if each["rendered"].removeprefix("v") != each["pinned"].removeprefix("v"):
            assert f"`{name}`" in page, f"{name} {each['pinned']} was rendered from {each['rendered']}"


def test_a_chart_that_requires_a_login_was_not_read_and_the_page_of_what_is_unproven_says_so() -> None:
    page = (ROOT / "docs/unproven.md").read_text(encoding="utf-8")
    unread = [each["chart"] for each in mirror()["charts"] if each.get("requires_login")]
    assert unread == ["runai-cluster"]
    assert all(f"`{name}`" in page and name not in read_facts() for name in unread)


# The charts themselves are not in this repository. A folder of them is made as tests/seams/charts/__main__.py says.
if "TRAINWAY_CHARTS" in os.environ:

    def test_the_facts_are_what_the_charts_render() -> None:
        assert rendered_facts(Path(os.environ["TRAINWAY_CHARTS"])) == read_facts()


# The charts' own values, as their projects publish them, where this checkout lies beside them.
OWN_VALUES = ROOT.parent / "shared/kubernetes/chart_values"
# Keys that the charts' values mention in a comment only, and that Helm's render showed to be read.
IN_TEMPLATES_ONLY = {
    "gpu-operator: node-feature-discovery.image.tag",
    "gpu-operator: operator.version",
    "gpu-operator: validator.version",
    "kai-scheduler: numaPlacementExporter.enabled",
}
if OWN_VALUES.is_dir():

    def test_every_key_is_in_the_published_values_of_its_chart() -> None:
        unknown = {
            f"{installed.chart}: {key}"
            for platform in PLATFORMS.values()
            for installed in installed_charts(platform)
            if (published := _published_values(installed.chart))
            for key in unknown_keys(installed, published)
        }
        assert unknown == IN_TEMPLATES_ONLY


def _published_values(chart: str) -> dict[str, Any]:
    file = OWN_VALUES / f"{chart}.yaml"
    values = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    for part in OWN_VALUES.glob(f"{chart}.*.yaml"):
        values[part.name.split(".")[1]] = yaml.safe_load(part.read_text(encoding="utf-8"))
    return dict(values)


def by_facts(platform: str, change: Callable[[Facts], None] = lambda _: None) -> Reading:
    """Return a reading of one platform's charts by the facts, with a change of them."""

    def read(_: Path) -> Sequence[str]:
        changed = copy.deepcopy(dict(read_facts()))
        change(changed)
        return platform_problems(PLATFORMS[platform], changed)

    return read


def planted(error: str, platform: str, change: Callable[[Facts], None]) -> Planted:
    """Return an error that is planted in what a chart renders to."""
    return Planted(error, by_facts(platform), by_facts(platform, change))


def workloads(facts: Facts, chart: str) -> list[dict[str, Any]]:
    """Return the workloads of all renders of a chart."""
    return [each for render in facts[chart]["renders"].values() for each in render["workloads"]]


def _lose_the_registry(facts: Facts) -> None:
    for render in facts["kubeflow-trainer"]["renders"].values():
        render["images"] = [each.partition("/")[2] if "jobset" in each else each for each in render["images"]]


def _lose_a_toleration(facts: Facts) -> None:
    for each in workloads(facts, "aws-efa-k8s-device-plugin"):
        each["tolerations"] = [one for one in each["tolerations"] if one["key"] != "aws.amazon.com/neuron"]


def _lose_the_health_taint(facts: Facts) -> None:
    for each in workloads(facts, "nvidia-device-plugin"):
        each["tolerations"] = [one for one in each["tolerations"] if not one["key"].startswith("sagemaker")]


def _leave_a_group_out(facts: Facts) -> None:
    for each in workloads(facts, "gpu-operator"):
        for term in each["nodes"]:
            term[:] = [{**one, "values": [name for name in one["values"] if name != "slices"]} for one in term]
        each["nodes"] = [term for term in each["nodes"] if all(one["values"] != ["true"] for one in term)] or [[]]


def _run_an_image_of_the_internet(facts: Facts) -> None:
    for render in facts["kueue"]["renders"].values():
        render["images"].append("registry.k8s.io/kueue/kueueviz-backend:v0.20.7")


def _outgrow_the_system_nodes(facts: Facts) -> None:
    for each in workloads(facts, "kueue"):
        each["cpu_millicores"] = 64_000


def _be_of_another_version(facts: Facts) -> None:
    facts["kueue"]["renders"] = {f"{digest[:-1]}x": render for digest, render in facts["kueue"]["renders"].items()}


def _ask_for_a_node_of_its_own(facts: Facts) -> None:
    for each in workloads(facts, "kubeflow-trainer"):
        each["nodes"] = [[{"key": "node-role.kubernetes.io/master", "operator": "Exists"}]]


def _misread(facts: Facts) -> None:
    facts["kubeflow-trainer"]["keys"].remove("jobset.image.repository")


def keys(values: dict[str, Any]) -> Reading:
    """Return a reading of Trainer's values against a chart whose JSON file is a part of its real values."""

    def read(directory: Path) -> Sequence[str]:
        jobset = directory / "charts/jobset"
        jobset.mkdir(parents=True)
        (directory / "Chart.yaml").write_text(
            "name: trainer\ndependencies: [{name: jobset, condition: jobset.install}]"
        )
        (directory / "values.yaml").write_text("jobset: {install: true, image: {registry: ghcr.io}}")
        (jobset / "Chart.yaml").write_text("name: jobset")
        (jobset / "values.yaml").write_text("image: {repository: jobset, tag: main}\naffinity: {}")
        [entry] = [each for each in mirror()["charts"] if each["chart"] == "kubeflow-trainer"]
        sound = {
            "jobset": {"install": True, "image": {"repository": "r", "tag": "t"}, "affinity": {"nodeAffinity": {}}}
        }
        return unknown_keys(Installed(entry, merged(sound, values)), own_values(directory))

    return read


def test_a_platform_without_neuron_says_nothing_of_it() -> None:
    for installed in installed_charts(PLATFORMS["eks-p5"]):
        found = remembered(installed, read_facts())
        assert found and not any("neuron" in str(each.tolerations) for each in found.workloads)


SEAMS = (
    Seam(
        artifact="Charts as rendered",
        rendered_by="delivery/mirror.yaml",
        reader="Helm 4 with the charts' own templates, and the rules of Kubernetes for taints, affinity, and room",
        instead="The charts are not in the repository. The tests read tests/seams/charts/facts.yaml, which a render of "
        "every chart in every shape wrote; it is bound to the versions and values by a hash.",
        planted=(
            planted("a controller's image has no registry", "small", _lose_the_registry),
            planted("a DaemonSet tolerates GPU nodes and not Neuron nodes", "neuron-and-gpus", _lose_a_toleration),
            planted("a device plugin leaves nodes under health checks", "governance", _lose_the_health_taint),
            planted("a DaemonSet leaves out a node group that it serves", "mig", _leave_a_group_out),
            planted("a chart runs an image that is not in the mirror", "eks-p5", _run_an_image_of_the_internet),
            planted("a controller is too large for the system nodes", "eks-p5", _outgrow_the_system_nodes),
            planted("a controller asks for nodes that do not exist", "small", _ask_for_a_node_of_its_own),
            planted("a chart was never rendered with these values", "eks-p5", _be_of_another_version),
        ),
    ),
    Seam(
        artifact="Chart values",
        rendered_by="delivery/values",
        reader="The chart's own values and those of its sub-charts, and Helm for keys that only templates read",
        instead="The charts are not in the repository. tests/seams/charts/facts.yaml names the keys that they have.",
        planted=(
            planted("a value is set that no template reads", "small", _misread),
            Planted(
                "a sub-chart's value exists in the parent's values only",
                keys({}),
                keys({"jobset": {"image": {"registry": "r"}}}),
            ),
            Planted("a key is misspelled", keys({}), keys({"jobset": {"image": {"repositories": "r"}}})),
        ),
    ),
)
