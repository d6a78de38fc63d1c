"""CloudWatch's alarms: when a test says which points services sent, they are judged, and tell their topics.

moto keeps alarms on metrics, and judges none. It has no alarms on logs, which are kept here.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-log.html (read 2026-12-01)
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from emulator.errors import NotEmulated
from emulator.registry.schema import Properties
from emulator.services.alarm_states import ALARM, OK, Datapoint, state_of
from emulator.services.service import Aws, Service

# The only query and the only aggregations that are evaluated here.
_QUERY: Final = re.compile(r"fields [@\w, ]+ \| filter @message like /(?P<pattern>[^/]+)/")
_AGGREGATION: Final = re.compile(r"count\(\*\)(?: by @logStream)?")
_RATE: Final = re.compile(r"rate\((?:1 minute|\d+ minutes)\)")


def put_log_alarm(aws: Aws, model: Properties) -> Properties:
    """Keep an alarm on logs. Raises NotEmulated for a query that is not evaluated here."""
    asked = model["ScheduledQueryConfiguration"]
    rate = asked["ScheduleConfiguration"]["ScheduleExpression"]
    if not (_QUERY.fullmatch(asked["QueryString"]) and _AGGREGATION.fullmatch(asked["AggregationExpression"])):
        raise NotEmulated("an alarm on logs is evaluated with `filter @message like` and `count(*)` only")
    if not _RATE.fullmatch(rate):
        raise NotEmulated(f"the schedule {rate} of an alarm on logs is no rate in minutes")
    aws.log_alarms[model["AlarmName"]] = model
    return {"Arn": f"arn:aws:cloudwatch:{aws.region}:{aws.account}:alarm:{model['AlarmName']}"}


def delete_log_alarm(aws: Aws, model: Properties) -> None:
    """Forget an alarm on logs."""
    aws.log_alarms.pop(model["AlarmName"], None)


def judge(
    aws: Aws, points: Iterable[Datapoint], now: float, quotas: Mapping[str, float], logs: Mapping[str, str]
) -> dict[str, str]:
    """Judge every alarm at a time, and return the states by name. An alarm that has just gone off tells its topics.

    `logs` has the names of log groups that a test stands in for others, as HyperPod makes its own.
    """
    sent, states = list(points), {}
    for page in aws.client("cloudwatch").get_paginator("describe_alarms").paginate():
        for alarm in page["MetricAlarms"]:
            states[alarm["AlarmName"]] = state_of(alarm, sent, now, quotas)
            _told(aws, alarm, states[alarm["AlarmName"]], now, [])
    for name, alarm in aws.log_alarms.items():
        asked = alarm["ScheduledQueryConfiguration"]
        lines = _found(aws, asked, now, logs)
        grouped = Counter(each["logStreamName"] for each in lines) if "by" in asked["AggregationExpression"] else {}
        counts = list(grouped.values()) or [len(lines)]
        states[name] = ALARM if max(counts) > alarm["Threshold"] else OK
        shown = [each["message"] for each in lines][-alarm.get("ActionLogLineCount", 0) :]
        streams = ", ".join(sorted(grouped))
        _told(aws, alarm, states[name], now, shown, streams)
    return states


def _found(aws: Aws, asked: Properties, now: float, logs: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the lines that a query finds, the oldest first. A log group that does not exist has none."""
    query = _QUERY.fullmatch(asked["QueryString"])
    assert query
    start, found, client = now - asked["ScheduleConfiguration"]["StartTimeOffset"], [], aws.client("logs")
    for group in asked["LogGroupIdentifiers"]:
        try:
            events = client.filter_log_events(
                logGroupName=logs.get(group, group), startTime=int(start * 1000), endTime=int(now * 1000)
            )["events"]
        except client.exceptions.ResourceNotFoundException:
            continue
        found += [each for each in events if re.search(query["pattern"], each["message"])]
    return sorted(found, key=lambda each: int(each["timestamp"]))


def _told(aws: Aws, alarm: Mapping[str, Any], state: str, now: float, lines: list[str], by: str = "") -> None:
    """Send a message to the topics of an alarm whose state has just become ALARM."""
    name, before = alarm["AlarmName"], aws.alarm_states.get(alarm["AlarmName"])
    aws.alarm_states[name] = state
    if state != ALARM or before == ALARM:
        return
    text = {
        "AlarmName": name,
        "AlarmDescription": alarm.get("AlarmDescription", ""),
        "NewStateValue": state,
        "StateChangeTime": now,
        **({"LogLines": lines, "Contributors": by} if lines else {}),
    }
    for topic in alarm.get("AlarmActions", ()):
        aws.client("sns").publish(TopicArn=topic, Subject=f'ALARM: "{name}"'[:100], Message=json.dumps(text))


SERVICES = {
    "AWS::CloudWatch::LogAlarm": Service(
        put_log_alarm, delete_log_alarm, lambda aws, _old, new: put_log_alarm(aws, new)
    ),
}
