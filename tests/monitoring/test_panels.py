"""Each panel's query returns data in Prometheus, and every metric that is listed as used is on a panel or an alarm."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.monitoring.story import END, GPUS_OF_A_NODE, IDLE_NODE, IDLE_SINCE, NODES, story_platform, told
from tests.monitoring.test_alarms import PLATFORMS, platform
from tests.monitoring.used_metrics import used
from tests.prometheus import Prometheus
from trainway.monitoring.grafana import PROMETHEUS, WORKSPACE, grafana_dashboard
from trainway.monitoring.panel import Panel
from trainway.monitoring.panels import PANELS, panels, prometheus_panels
from trainway.monitoring.usage import POD_OF_RUN, usage_panels
from trainway.price.gpu import gpu_prices
from trainway.price.run import NodePrice
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.metrics import emitters_of_metric, load_emitters
from trainway.spec.observability.collection import collection_of
from trainway.spec.platform import Platform

Answers = dict[str, dict[tuple[str, ...], float]]
RUN_OF = {node: run for node, (_, _, run, _, _) in NODES.items()}


def test_every_metric_that_is_listed_is_used_wherever_it_exists_and_no_other() -> None:
    catalogue = load_catalogue()
    for orchestrator in PLATFORMS:
        collection = collection_of(platform(orchestrator), catalogue)
        there = {name for emitter in load_emitters().values() for name in emitter.metrics if collection.has(name)}
        assert there == used(orchestrator), orchestrator
    everywhere = {name for emitter in load_emitters().values() for name in emitter.metrics}
    assert everywhere == set().union(*map(used, PLATFORMS))


def test_every_panel_is_on_the_dashboard_of_some_platform() -> None:
    catalogue = load_catalogue()
    shown = {panel for orchestrator in PLATFORMS for panel in panels(platform(orchestrator), catalogue)}
    usage = {panel for orchestrator in PLATFORMS for panel in usage_panels(platform(orchestrator), catalogue)}
    assert usage <= shown and set(PANELS) <= shown
    for panel in shown:
        assert len({emitter.store for each in panel.metrics for emitter in emitters_of_metric(each)}) == 1, panel.title


@pytest.fixture(scope="module", params=PLATFORMS)
def asked(request: pytest.FixtureRequest) -> Iterator[tuple[str, Answers]]:
    """An orchestrator, and the answers to each panel's query at the end of the story, by the labels of the legend."""
    shown = story_platform(request.param)
    with tempfile.TemporaryDirectory() as directory, told(shown, Path(directory)) as store:
        wait_for("Prometheus answers", lambda: bool(store.query("up", END) or store.query("trainway_run_info", END)))
        yield (
            request.param,
            {panel.title: answers(store, panel, query) for panel, query in prometheus_panels(shown, load_catalogue())},
        )


def answers(store: Prometheus, panel: Panel, query: str) -> dict[tuple[str, ...], float]:
    labels = re.findall(r"{{(\w+)}}", panel.legend)
    return {tuple(found.get(label, "") for label in labels): value for found, value in store.query(query, END)}


def test_every_query_returns_data_with_the_labels_of_its_legend(asked: tuple[str, Answers]) -> None:
    orchestrator, found = asked
    assert {title for title, series in found.items() if not series} == set()
    unnamed = {title for title, series in found.items() if any("" in labels for labels in series)}
    assert unnamed == set(), orchestrator


def test_allocated_and_used_gpus_and_dollars_are_those_of_the_story(asked: tuple[str, Answers]) -> None:
    orchestrator, found = asked
    prices = {each.group: each.usd for each in gpu_prices(story_platform(orchestrator), load_catalogue())}
    assert len(set(prices.values())) == 2 and all(prices.values())
    gpus, usd = Counter[str](), Counter[str]()
    for team, _, _, group, _ in NODES.values():
        gpus[team] += GPUS_OF_A_NODE
        usd[team] += GPUS_OF_A_NODE * prices[group]  # type: ignore[assignment, operator]
    for what, expected in (("GPUs", gpus), ("US dollars an hour", usd)):
        allocated = {labels[0]: value for labels, value in found[f"{what} allocated, by team"].items()}
        assert allocated == pytest.approx(dict(expected), rel=1e-4)
        used_by = {labels[0]: value for labels, value in found[f"{what} used, by team"].items()}
        # The utilization of busy GPUs is between 85 and 95 %.
        assert 0.85 * expected["research"] <= used_by["research"] <= 0.95 * expected["research"]
        assert used_by["guests"] == 0
        by_job = {labels[-1]: value for labels, value in found[f"{what} allocated, by job"].items()}
        assert by_job == pytest.approx({"llama-8b": expected["research"], "probe": expected["guests"]}, rel=1e-4)


def test_who_holds_idle_gpus_and_since_when(asked: tuple[str, Answers]) -> None:
    _, found = asked
    assert {labels[-1]: value for labels, value in found["GPUs idle, by job"].items()} == {"probe": GPUS_OF_A_NODE}
    ((labels, since),) = found["Idle GPUs: who holds them, and since when"].items()
    assert labels[-2:] == (RUN_OF[IDLE_NODE], IDLE_NODE)
    # The times are looked at every five minutes.
    assert IDLE_SINCE - 600 <= since / 1000 <= IDLE_SINCE + 300


def test_gpu_hours_above_the_guarantee(asked: tuple[str, Answers]) -> None:
    _, found = asked
    ((team, hours),) = found["GPU-hours above the guarantee, by team"].items()
    # Two GPUs of a team without a guarantee, for the six hours of the story.
    assert team == ("guests",) and hours == pytest.approx(12, abs=0.5)


@pytest.mark.parametrize(
    ("pod", "run"),
    [
        ("llama-8b-node-0-12-x7k2p", "llama-8b"),  # of a TrainJob or JobSet
        ("llama-8b-1-0-x7k2p", "llama-8b-1"),  # of an indexed Job
        ("llama-8b-worker-3", "llama-8b"),  # of an MPIJob or PyTorchJob
        ("llama-8b-pods-3", "llama-8b"),  # of a HyperPodPyTorchJob
        ("llama-8b-qw3rt-nodes-worker-x7k2p", "llama-8b"),  # of a RayJob
        ("notebook", None),
    ],
)
def test_the_run_of_a_pod_is_in_its_name(pod: str, run: str | None) -> None:
    found = re.fullmatch(POD_OF_RUN, pod)
    assert (found and found[1]) == run


@pytest.mark.parametrize("orchestrator", PLATFORMS)
def test_gpus_of_one_price_need_no_matcher(orchestrator: str) -> None:
    (price,) = gpu_prices(platform(orchestrator), load_catalogue())
    (panel,) = (
        each
        for each in usage_panels(platform(orchestrator), load_catalogue())
        if each.title == "US dollars an hour allocated, by team"
    )
    assert isinstance(panel.query, str) and f"{price.usd:.6g}" in panel.query
    assert "modelName" not in panel.query and "slurm_node_status" not in panel.query
    assert price.sentence in panel.about


@pytest.mark.parametrize("orchestrator", ["eks", "hyperpod-slurm"])
def test_a_platform_without_a_known_price_has_no_dollars(orchestrator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {"train": "p5.48xlarge", "prepare": "m7i.8xlarge"}
    groups = [{"name": name, "instance_type": instance, "count": 1} for name, instance in nodes.items()]
    keys = {"name": "atlas", "region": "us-west-2", "zones": ["usw2-az1"], "orchestrator": orchestrator}
    shown = Platform.model_validate({**keys, "node_groups": groups})
    unknown = NodePrice("p5.48xlarge", "on demand", "us-west-2", None, None)
    monkeypatch.setattr("trainway.price.gpu.node_price", lambda *_: unknown)
    (price,) = gpu_prices(shown, load_catalogue())
    assert price.usd is None and price.sentence.startswith("GPUs of train have no dollars: no price known")
    titles = {panel.title for panel in usage_panels(shown, load_catalogue())}
    assert "GPUs allocated, by team" in titles and not {each for each in titles if "dollars" in each}
    # Nobody has a guarantee without teams.
    assert "GPU-hours above the guarantee, by team" not in titles


def test_a_file_system_without_a_fixed_capacity_has_no_panel_of_free_space() -> None:
    fixed = platform("eks")
    assert fixed.storage.lustre
    elastic = fixed.storage.lustre.model_copy(update={"storage_class": "intelligent-tiering"})
    assert elastic.is_elastic
    other = fixed.model_copy(update={"storage": fixed.storage.model_copy(update={"lustre": elastic})})
    titles = [{panel.title for panel in panels(each, load_catalogue())} for each in (fixed, other)]
    assert titles[0] - titles[1] == {"Lustre: free bytes of a storage target"}


@pytest.mark.parametrize("orchestrator", PLATFORMS)
def test_a_dashboard_has_its_panels_beside_each_other(orchestrator: str) -> None:
    dashboard = grafana_dashboard(platform(orchestrator), load_catalogue())
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        box = panel["gridPos"]
        own = {(x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])}
        assert not own & cells and box["x"] + box["w"] <= 24, panel["title"]
        cells |= own
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert numbers == list(range(1, len(numbers) + 1))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert queries == [query for _, query in prometheus_panels(platform(orchestrator), load_catalogue())]
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]
    assert rows == ["Cluster", "Jobs", "Fabric", "Storage", "Teams"]


@pytest.mark.parametrize(("observed", "kind"), [(True, WORKSPACE), (False, PROMETHEUS)])
def test_the_data_source_is_the_workspace_or_a_prometheus_of_yours(observed: bool, kind: str) -> None:
    shown = platform("hyperpod-slurm")
    shown = shown.model_copy(update={"slurm": shown.slurm_or_default.model_copy(update={"observability": observed})})
    dashboard = grafana_dashboard(shown, load_catalogue())
    (variable,) = dashboard["templating"]["list"]
    sources = [panel["datasource"] for panel in dashboard["panels"] if panel["type"] != "row"]
    assert sources and all(each == {"type": kind, "uid": "${source}"} for each in sources)
    assert (variable["name"], variable["query"]) == ("source", kind)
