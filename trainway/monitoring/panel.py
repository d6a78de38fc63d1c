"""What a panel of a dashboard is: a row of data, with a query for the store of its metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainway.monitoring.alarm import Statistic
from trainway.monitoring.promql import metrics_in

PanelRow = Literal["Cluster", "Jobs", "Fabric", "Storage", "Teams"]
ROWS: tuple[PanelRow, ...] = ("Cluster", "Jobs", "Fabric", "Storage", "Teams")


@dataclass(frozen=True)
class Series:
    """A series of CloudWatch: a statistic of a metric, over periods of `period_seconds`."""

    metric: str
    statistic: Statistic
    dimensions: tuple[tuple[str, str], ...]
    label: str
    period_seconds: int = 60


@dataclass(frozen=True)
class Panel:
    """A graph or a table: its row in the dashboard, its title, its query, and the unit of its values by Grafana's name.

    `query` is PromQL, or series of CloudWatch. `legend` names a series of PromQL by its labels, as `{{label}}`. A table
    has a line for each series, with those labels. `about` explains the panel.
    """

    row: PanelRow
    title: str
    query: str | tuple[Series, ...]
    unit: str
    legend: str = ""
    about: str = ""
    view: Literal["graph", "table"] = "graph"

    @property
    def metrics(self) -> frozenset[str]:
        """The names of the metrics."""
        return metrics_in(self.query) if isinstance(self.query, str) else frozenset(each.metric for each in self.query)
