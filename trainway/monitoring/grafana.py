"""The dashboard of a platform as Grafana imports it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from trainway.monitoring.panel import Panel
from trainway.monitoring.panels import prometheus_panels
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
    """Return the JSON model of a dashboard with the panels whose metrics Prometheus has."""
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "title": f"Trainway {platform.name}",
        "uid": f"trainway-{platform.name}"[:40],
        "tags": ["trainway"],
        "schemaVersion": SCHEMA_VERSION,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [source]},
        "panels": list(_laid_out(prometheus_panels(platform, catalogue))),
    }


def _laid_out(shown: Iterable[tuple[Panel, str]]) -> Iterator[dict[str, Any]]:
    top, number = 0, 0
    for row, members in groupby(shown, key=lambda each: each[0].row):
        number += 1
        position = {"x": 0, "y": top, "w": WIDTH * COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row, "collapsed": False, "gridPos": position, "panels": []}
        top += 1
        for index, (panel, query) in enumerate(members):
            number += 1
            line, column = divmod(index, COLUMNS)
            position = {"x": WIDTH * column, "y": top + HEIGHT * line, "w": WIDTH, "h": HEIGHT}
            yield {"id": number, "gridPos": position, **_shown(panel, query)}
        top += HEIGHT * (line + 1)


def _shown(panel: Panel, query: str) -> dict[str, Any]:
    target = {"refId": "A", "datasource": SOURCE, "expr": query, "legendFormat": panel.legend}
    common = {
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
    }
    if panel.view == "graph":
        return {**common, "type": "timeseries", "targets": [target]}
    # The answer at one time as a table, whose column `Time` is the time of the query.
    # https://grafana.com/docs/grafana/latest/datasources/prometheus/query-editor/ (read 2026-12-01)
    hidden = {"id": "organize", "options": {"excludeByName": {"Time": True}}}
    asked = {**target, "format": "table", "instant": True, "range": False}
    return {**common, "type": "table", "targets": [asked], "transformations": [hidden]}
