"""The dashboard of a platform as Grafana imports it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from trainway.monitoring.panel import Panel
from trainway.monitoring.panels import prometheus_panels
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.observability.collection import collector_of
from trainway.spec.platform import Platform

# The grid has 24 columns.
# https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/
# (read 2026-11-25)
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
SCHEMA_VERSION = 39
# The types of data sources by Grafana's names. The type `prometheus` cannot sign requests to Amazon Managed Service for
# Prometheus in Grafana 13, nor in Amazon Managed Grafana 12.
# https://docs.aws.amazon.com/grafana/latest/userguide/using-prometheus-datasource.html
# https://grafana.com/docs/grafana/latest/datasources/prometheus/configure/aws-authentication/ (both read 2026-12-01)
WORKSPACE, PROMETHEUS = "grafana-amazonprometheus-datasource", "prometheus"


def grafana_dashboard(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    """Return the JSON model of a dashboard with the panels whose metrics Prometheus has.

    Whoever imports the dashboard chooses the data source: the workspace of the platform, or a Prometheus of theirs if
    the platform has no collector.
    """
    kind = PROMETHEUS if collector_of(platform) is None else WORKSPACE
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": kind}
    return {
        "title": f"Trainway {platform.name}",
        "uid": f"trainway-{platform.name}"[:40],
        "tags": ["trainway"],
        "schemaVersion": SCHEMA_VERSION,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [source]},
        "panels": list(_laid_out(prometheus_panels(platform, catalogue), {"type": kind, "uid": "${source}"})),
    }


def _laid_out(shown: Iterable[tuple[Panel, str]], source: dict[str, str]) -> Iterator[dict[str, Any]]:
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
            yield {"id": number, "gridPos": position, **_shown(panel, query, source)}
        top += HEIGHT * (line + 1)


def _shown(panel: Panel, query: str, source: dict[str, str]) -> dict[str, Any]:
    target = {"refId": "A", "datasource": source, "expr": query, "legendFormat": panel.legend}
    common = {
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
    }
    if panel.view == "graph":
        return {**common, "type": "timeseries", "targets": [target]}
    # The answer at one time as a table, whose column `Time` is the time of the query.
    # https://grafana.com/docs/grafana/latest/datasources/prometheus/query-editor/ (read 2026-12-01)
    hidden = {"id": "organize", "options": {"excludeByName": {"Time": True}}}
    asked = {**target, "format": "table", "instant": True, "range": False}
    return {**common, "type": "table", "targets": [asked], "transformations": [hidden]}
