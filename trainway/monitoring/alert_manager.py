"""The configuration of the alert manager of Amazon Managed Service for Prometheus."""

from __future__ import annotations

from typing import Any

import yaml

# All series of an alarm that one evaluation finds come within a second.
GROUP_SECONDS = 10
# A message has an alarm in three lines, and is plain text. SNS cuts a subject off after 100 characters.
# https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-alertmanager-receiver.html (read 2026-11-25)
TEMPLATE = """\
{{ define "trainway.subject" }}Trainway: {{ .Status }}: {{ .GroupLabels.alertname }}{{ end }}
{{ define "trainway.message" }}{{ range .Alerts }}{{ .Labels.alertname }} ({{ .Labels.severity }}) is {{ .Status }}.
{{ .Annotations.summary }}
What to do: {{ .Annotations.runbook }}

{{ end }}{{ end }}"""


def alert_manager_definition(topic: str, region: str) -> str:
    """Return the definition that sends all alarms to a topic of SNS, whose ARN and Region are given.

    https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-alertmanager-config.html and
    https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-alertmanager-receiver-config.html (read 2026-11-25)
    """
    definition = {
        "template_files": {"trainway": TEMPLATE},
        "alertmanager_config": yaml.safe_dump(alert_manager_config(topic, region), sort_keys=False, width=1000),
    }
    return yaml.safe_dump(definition, sort_keys=False, width=1000)


def alert_manager_config(topic: str, region: str) -> dict[str, Any]:
    """Return the configuration of Alertmanager: one message for all series of an alarm, again after a day."""
    return {
        "templates": ["trainway"],
        "route": {
            "receiver": "topic",
            "group_by": ["alertname"],
            "group_wait": f"{GROUP_SECONDS}s",
            "group_interval": "5m",
            "repeat_interval": "24h",
        },
        "receivers": [
            {
                "name": "topic",
                "sns_configs": [
                    {
                        "topic_arn": topic,
                        "sigv4": {"region": region},
                        "send_resolved": True,
                        "subject": '{{ template "trainway.subject" . }}',
                        "message": '{{ template "trainway.message" . }}',
                    }
                ],
            }
        ],
    }
