"""Each panel's query returns data in Prometheus, and every metric that is listed as used is on a panel or an alarm."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.test_alarms import PLATFORMS, platform
from tests.monitoring.used_metrics import used
from tests.prometheus import program
from trainway.monitoring.grafana import grafana_dashboard
from trainway.monitoring.panels import PANELS, panels, prometheus_panels
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.metrics import emitters_of_metric, load_emitters
from trainway.spec.observability.collection import collection_of


def test_every_metric_that_is_listed_is_used_wherever_it_exists_and_no_other() -> None:
    catalogue = load_catalogue()
    for orchestrator in PLATFORMS:
        collection = collection_of(platform(orchestrator), catalogue)
        there = {name for emitter in load_emitters().values() for name in emitter.metrics if collection.has(name)}
        assert there == used(orchestrator), orchestrator
    everywhere = {name for emitter in load_emitters().values() for name in emitter.metrics}
    assert everywhere == set().union(*map(used, PLATFORMS))


def test_every_panel_is_on_the_dashboard_of_some_platform() -> None:
    shown = {panel for orchestrator in PLATFORMS for panel in panels(platform(orchestrator), load_catalogue())}
    assert set(PANELS) <= shown
    for panel in shown:
        assert len({emitter.store for each in panel.metrics for emitter in emitters_of_metric(each)}) == 1, panel.title


def test_every_query_returns_data(tmp_path: Path) -> None:
    labels = 'run="llama", node_rank="0", phase="data_wait", Hostname="a", gpu="0", instance="10.0.0.1:1", mode="idle"'
    labels += ', fstype="ext4", device="ens5"'
    names = sorted({each for panel in PANELS for each in panel.metrics})
    series = [{"series": f"{name}{{{labels}}}", "values": "1+1x60"} for name in names]
    asked = [{"expr": f"count({panel.query})", "eval_time": "30m", "exp_samples": [{"value": 1}]} for panel in PANELS]
    document: dict[str, Any] = {"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": asked}]}
    file = tmp_path / "tests.yaml"

    def promtool() -> str:
        file.write_text(yaml.safe_dump(document))
        done = subprocess.run([program("promtool"), "test", "rules", file], capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    assert promtool() == ""
    series.pop(names.index("trainway_run_mfu"))
    assert "trainway_run_mfu" in promtool()


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
