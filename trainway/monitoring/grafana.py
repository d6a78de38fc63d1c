"""The dashboard of a platform as Grafana imports it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from trainway.monitoring.panels import Panel, panels
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform

# The grid has 24 columns.
# https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/
# (read 2026-11-25)
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
SCHEMA_VERSION = 39
# Whoever imports the dashboard chooses the Prometheus, or the workspace of Amazon Managed Service for Prometheus.
SOURCE = {"type": "prometheus", "uid": "${source}"}


def grafana_dashboard(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    """Return the JSON model of a dashboard with the panels whose metrics a platform has."""
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "title": f"Trainway {platform.name}",
        "uid": f"trainway-{platform.name}"[:40],
        "tags": ["trainway"],
        "schemaVersion": SCHEMA_VERSION,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [source]},
        "panels": list(_laid_out(panels(platform, catalogue))),
    }


def _laid_out(shown: tuple[Panel, ...]) -> Iterator[dict[str, Any]]:
    top, number = 0, 0
    for row, members in groupby(shown, key=lambda panel: panel.row):
        number += 1
        position = {"x": 0, "y": top, "w": WIDTH * COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row, "collapsed": False, "gridPos": position, "panels": []}
        top += 1
        for index, panel in enumerate(members):
            number += 1
            line, column = divmod(index, COLUMNS)
            yield _graph(panel, number, {"x": WIDTH * column, "y": top + HEIGHT * line, "w": WIDTH, "h": HEIGHT})
        top += HEIGHT * (line + 1)


def _graph(panel: Panel, number: int, position: dict[str, int]) -> dict[str, Any]:
    target = {"refId": "A", "datasource": SOURCE, "expr": panel.query, "legendFormat": panel.legend}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": position,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [target],
    }
