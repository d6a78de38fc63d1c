"""What an alarm is: a condition on metrics, and what a person is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainway.monitoring.promql import metrics_in

# Where docs/alarms.md says what to do about an alarm. The sections have the names of alarms.
RUNBOOKS = "docs/alarms.md"
# Stand in a threshold for what only the deployed platform knows. CloudWatch has an alarm for each rule and each class.
FILE_SYSTEM = "the ID of the file system"
NAT_GATEWAY = "the ID of the NAT gateway"
RULE = "the name of a rule that tells people of events"
QUEUED_RULE = "the name of a rule whose undelivered events go to a queue"
QUOTA_CLASS = "a class of instances whose vCPUs a quota limits"

Statistic = Literal["Average", "Maximum", "Minimum", "Sum"]


@dataclass(frozen=True)
class Threshold:
    """A metric that is above or below a number. It has a form for each store.

    `statistic` combines the points of the series, per value of the labels `by`. `dimensions` selects series. With
    `times_count`, the number of points multiplies the statistic: the total if all series had this value. With
    `of_quota`, the number is the percentage of the service quota that counts the metric, which only CloudWatch knows.

    In CloudWatch, `statistic` also combines all points of a period of `period_seconds`, a multiple of 60. So `Sum` of a
    state needs the period in which the service sends one point of each series.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html (read 2026-11-30)
    """

    metric: str
    statistic: Statistic
    comparison: Literal[">", "<"]
    value: float
    dimensions: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    times_count: bool = False
    of_quota: bool = False
    period_seconds: int = 300

    @property
    def metrics(self) -> frozenset[str]:
        """The names of the metrics."""
        return frozenset({self.metric})

    @property
    def promql(self) -> str:
        """The condition in PromQL."""
        aggregate = {"Average": "avg", "Maximum": "max", "Minimum": "min", "Sum": "sum"}[self.statistic]
        by = f" by ({', '.join(self.by)})" if self.by else ""
        chosen = ", ".join(f'{name}="{value}"' for name, value in self.dimensions.items())
        series = f"{self.metric}{{{chosen}}}" if chosen else self.metric
        times = f" * count{by} ({series})" if self.times_count else ""
        return f"{aggregate}{by} ({series}){times} {self.comparison} {self.value:g}"

    @property
    def metric_math(self) -> str:
        """The value that CloudWatch compares, of the metric `m1` and its number of points `m2`. "" if it is `m1`.

        https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html (read 2026-12-01)
        """
        if self.of_quota:
            return "100 * m1 / SERVICE_QUOTA(m1)"
        return "m1 * m2" if self.times_count else ""


@dataclass(frozen=True)
class Query:
    """A condition in PromQL that is true while a series is returned. CloudWatch has no form of it."""

    promql: str

    @property
    def metrics(self) -> frozenset[str]:
        """The names of the metrics."""
        return metrics_in(self.promql)


@dataclass(frozen=True)
class Lines:
    """Lines of a log group that contain a word. The condition is true while there are new ones. `by` groups them."""

    word: str
    by: str

    @property
    def metrics(self) -> frozenset[str]:
        """The names of the metrics, of which the word is one."""
        return frozenset({self.word})

    @property
    def promql(self) -> str:
        """Raise TypeError: Prometheus has no form of a condition on lines."""
        raise TypeError(f"lines with {self.word} are in logs, of which Prometheus has no form")


@dataclass(frozen=True)
class Alarm:
    """An alarm, which fires after its condition has been true for some minutes.

    `severity` is `critical` if a run does not progress, or work is lost, until a person acts. `conditions` measure the
    same problem in different ways. A platform uses the first one whose metrics it has. `summary` tells a person what
    happened. `{{ $labels.NAME }}` is the value of a label, and `{{ $value }}` that of the condition. With
    `missing_is_fine`, the absence of the metric in CloudWatch is no problem. `because` says which false alarm the
    minutes prevent.
    """

    name: str
    severity: Literal["critical", "warning"]
    conditions: tuple[Threshold | Query | Lines, ...]
    minutes: int
    summary: str
    missing_is_fine: bool = True
    because: str = ""

    @property
    def runbook(self) -> str:
        """The section of the documentation that says what to do."""
        return f"{RUNBOOKS}#{self.name.lower()}"
