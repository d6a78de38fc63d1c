"""Dashboards and alarms: the structure that CloudWatch documents, and metrics that the services publish."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.representatives import representatives_and_every
from tests.seams.resolved import Deployed, deployed_of
from tests.seams.seam import Planted, Seam
from tests.seams.shapes import platforms
from trainway.spec.facts.metrics import load_emitters

SCHEMA = Path(__file__).with_name("dashboard_schema.yaml")
# What the services publish: the dimensions of each metric, and the statistics that mean something.
METRICS = {
    (emitter.namespace, name): (set(metric.dimensions), set(metric.statistics))
    for emitter in load_emitters().values()
    for name, metric in emitter.metrics.items()
    if emitter.store == "cloudwatch"
}


@cache
def reader() -> Any:
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def problems(platform: Deployed) -> list[str]:
    """Return what is wrong with a platform's dashboards and alarms."""
    alarms = platform.of_type("AWS::CloudWatch::Alarm")
    found = [problem for (_, name), alarm in alarms.items() for problem in alarm_problems(name, alarm)]
    names = {alarm.get("AlarmName", name) for (_, name), alarm in alarms.items()}
    for dashboard in platform.of_type("AWS::CloudWatch::Dashboard").values():
        found += dashboard_problems(json.loads(dashboard["DashboardBody"]), platform.region, names)
    return found


def dashboard_problems(body: dict[str, Any], region: str, alarms: set[str]) -> Iterator[str]:
    """Yield what is wrong with the body of a dashboard in one Region with these alarms."""
    yield from (f"{error.json_path}: {error.message}" for error in reader().iter_errors(body))
    ends: list[tuple[int, int, int, int]] = []
    for widget in body["widgets"]:
        shown = widget.get("properties", {})
        if shown.get("region") != region:
            yield f"{shown.get('title')} shows another Region"
        for arn in shown.get("annotations", {}).get("alarms", []):
            if arn.rpartition(":")[2] not in alarms:
                yield f"{shown.get('title')} shows {arn}, which does not exist"
        for series in shown.get("metrics", []):
            words = [word for word in series if isinstance(word, str)]
            rendering = next((each for each in series if isinstance(each, dict)), {})
            statistic = rendering.get("stat", shown.get("stat", "Average"))
            yield from metric_problems(words[0], words[1], words[2::2], statistic)
        box = (widget.get("x", 0), widget.get("y", 0), widget.get("width", 6), widget.get("height", 6))
        if box[0] + box[2] > 24:
            yield f"{shown.get('title')} is wider than the grid of 24 columns"
        if any(overlap(box, other) for other in ends):
            yield f"{shown.get('title')} lies on another widget"
        ends.append(box)


def overlap(one: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether two boxes, each x, y, width and height, share a cell of the grid."""
    return all(one[at] < other[at] + other[at + 2] and other[at] < one[at] + one[at + 2] for at in (0, 1))


def alarm_problems(name: str, alarm: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with an alarm on one metric, or on metric math with several statistics of it."""
    stats = [each["MetricStat"] for each in alarm.get("Metrics", ()) if "MetricStat" in each]
    for each in stats or [{"Metric": alarm, "Stat": alarm["Statistic"], "Period": alarm["Period"]}]:
        metric, dimensions = each["Metric"], [one["Name"] for one in each["Metric"]["Dimensions"]]
        yield from metric_problems(metric["Namespace"], metric["MetricName"], dimensions, each["Stat"])
    # CloudWatch has the quota only of a metric in AWS/Usage.
    maths = [each["Expression"] for each in alarm.get("Metrics", ()) if "Expression" in each]
    if any("SERVICE_QUOTA" in each for each in maths) and stats[0]["Metric"]["Namespace"] != "AWS/Usage":
        yield f"{name} asks for the quota of a metric that has none"
    if "TreatMissingData" not in alarm:
        yield f"{name} does not say what missing data mean"
    if not alarm.get("AlarmActions"):
        yield f"{name} tells nobody"
    # PutMetricAlarm in botocore's model of CloudWatch, Period.
    (period,) = {each["Period"] for each in stats or [alarm]}
    if period not in (10, 20, 30) and period % 60:
        yield f"{name} has a period of {period} s, which is neither 10, 20, 30 nor a multiple of 60"
    days = 1 if period < 3600 else 7
    if period * alarm["EvaluationPeriods"] > days * 86400:
        yield f"{name} looks at more than {days} days, with periods of {period} s"


def metric_problems(namespace: str, metric: str, dimensions: Sequence[str], statistic: str) -> Iterator[str]:
    """Yield what is wrong with a metric that a dashboard or an alarm names."""
    if (namespace, metric) not in METRICS:
        yield f"{namespace} publishes no {metric}"
        return
    known, statistics = METRICS[namespace, metric]
    if set(dimensions) != known:
        yield f"{metric} has the dimensions {sorted(known)}, not {sorted(dimensions)}"
    if statistic not in statistics:
        yield f"{statistic} of {metric} means nothing"


@pytest.mark.parametrize("names", representatives_and_every(platforms()))
def test_dashboards_and_alarms_of_every_platform_have_no_problem(names: tuple[str, ...]) -> None:
    read = {name: problems(deployed_of(name)) for name in names}
    assert {name: found for name, found in read.items() if found} == {}
    for name in names:
        # Without a file system and without schedules of capacity, CloudWatch has no metric of the platform to show.
        alarms = deployed_of(name).of_type("AWS::CloudWatch::Alarm")
        shows = platforms()[name].storage.lustre is not None or bool(alarms)
        assert bool(deployed_of(name).of_type("AWS::CloudWatch::Dashboard")) is shows, name


def planted(error: str, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Planted:
    """Plant an error in a dashboard's body or in an alarm: `change` takes the body and the first alarm."""

    def read(change: Callable[[dict[str, Any], dict[str, Any]], Any] | None, _: Path) -> list[str]:
        platform = copy.deepcopy(deployed_of("eks-p5"))
        (dashboard,) = platform.of_type("AWS::CloudWatch::Dashboard").values()
        body = json.loads(dashboard["DashboardBody"])
        if change:
            change(body, next(iter(platform.of_type("AWS::CloudWatch::Alarm").values())))
        dashboard["DashboardBody"] = json.dumps(body)
        return problems(platform)

    return Planted(error, sound=partial(read, None), broken=partial(read, change))


SEAMS = (
    Seam(
        artifact="CloudWatch dashboards and alarms",
        rendered_by="stacks/constructs/monitoring/dashboard.py",
        reader="a JSON Schema of ours for the dashboard's body, and the metrics that AWS documents for FSx",
        instead="CloudWatch runs only in AWS and publishes no schema. Ours has the properties that the AWS CDK writes.",
        planted=(
            planted("a widget has an unknown property", lambda body, _: body["widgets"][0].update(colour="red")),
            planted(
                "a graph has an unknown property",
                lambda body, _: body["widgets"][0]["properties"].update(statistic="Sum"),
            ),
            planted("a widget has no properties", lambda body, _: body["widgets"][0].pop("properties")),
            planted(
                "a metric does not exist",
                lambda body, _: body["widgets"][0]["properties"]["metrics"][0].__setitem__(1, "DataReadByte"),
            ),
            planted("a widget lies on another", lambda body, _: body["widgets"][1].update(x=0)),
            planted(
                "an alarm's metric has no such dimension", lambda _, alarm: alarm["Dimensions"][0].update(Name="Id")
            ),
            planted("an alarm does not say what missing data mean", lambda _, alarm: alarm.pop("TreatMissingData")),
            planted("an alarm has half a minute more", lambda _, alarm: alarm.update(Period=330)),
            planted("an alarm looks at two days", lambda _, alarm: alarm.update(Period=300, EvaluationPeriods=576)),
        ),
    ),
)
