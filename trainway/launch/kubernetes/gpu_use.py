"""The use of GPUs in a Kubernetes cluster, from the workspace in which the platform's collector stores DCGM's metrics.

Members of a team may not read pods of other namespaces, such as those of the exporters, so the metrics of all nodes are
read from the workspace. That requires `aps:ListWorkspaces`, `aps:DescribeWorkspace`, and `aps:QueryMetrics`.
"""

from __future__ import annotations

import json
import statistics
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from trainway.spec.errors import UsageError, usage_error
from trainway.spec.handoff import HandOff
from trainway.spec.handoff_names import metrics_workspace_alias
from trainway.spec.sections.orchestrator import Orchestrator

_METRIC = "DCGM_FI_DEV_GPU_UTIL"
# A GPU that has not computed for so long is idle. The alarm GpuIdle waits longer (docs/alarms.md).
IDLE_MINUTES = 10
_IDLE_PERCENT = 5
_SECONDS = 5


@dataclass(frozen=True)
class GpuUse:
    """The use of one GPU, from 0 to 1, and whether it was idle for IDLE_MINUTES.

    `node` is the name of its node, and `pod` that of the pod to which it is allocated, or "" for a free GPU.
    """

    node: str
    namespace: str
    pod: str
    used: float
    is_idle: bool


def gpu_use(hand_off: HandOff) -> list[GpuUse]:
    """Return the use of each GPU. Empty without a workspace.

    Raises UsageError if the workspace cannot be read, with the reason.
    """
    endpoint = workspace_endpoint(hand_off)
    return [] if endpoint is None else query_use(endpoint, hand_off.region)


def workspace_endpoint(hand_off: HandOff) -> str | None:
    """Return the address of the platform's workspace in Amazon Managed Service for Prometheus, or None without one.

    https://docs.aws.amazon.com/prometheus/latest/APIReference/API_ListWorkspaces.html (read 2026-11-27)
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    alias = hand_off.metrics_workspace
    if alias is None and Orchestrator(hand_off.orchestrator).is_hyperpod:
        # HyperPod's add-on may have been selected or not.
        alias = metrics_workspace_alias(hand_off.platform, is_hyperpod=True)
    if alias is None:
        return None
    patience = Config(connect_timeout=3, read_timeout=_SECONDS, retries={"total_max_attempts": 1})
    try:
        client = boto3.client("amp", region_name=hand_off.region, config=patience)
        found = client.list_workspaces(alias=alias)["workspaces"]
        # An alias is a prefix in this call, and need not be unique.
        ids = [each["workspaceId"] for each in found if each.get("alias") == alias]
        return str(client.describe_workspace(workspaceId=ids[0])["workspace"]["prometheusEndpoint"]) if ids else None
    except (BotoCoreError, ClientError) as error:
        raise _unknown(str(error)) from None


def query_use(endpoint: str, region: str) -> list[GpuUse]:
    """Return the use of each GPU of which the workspace at `endpoint` has a new sample. Raises UsageError.

    DCGM's exporter names the node in the label `Hostname`. Prometheus renames the label `pod` to `exported_pod` if the
    exporter's own pod has that label.
    https://github.com/NVIDIA/dcgm-exporter and
    https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config (read 2026-11-27)
    """
    busiest = {
        _key(labels): value for labels, value in _query(f"max_over_time({_METRIC}[{IDLE_MINUTES}m])", endpoint, region)
    }
    return [
        GpuUse(
            labels.get("Hostname", ""),
            labels.get("exported_namespace") or labels.get("namespace", ""),
            labels.get("exported_pod") or labels.get("pod", ""),
            value / 100,
            busiest.get(_key(labels), value) < _IDLE_PERCENT,
        )
        for labels, value in _query(_METRIC, endpoint, region)
    ]


def of_node(uses: Iterable[GpuUse], node: str) -> list[GpuUse]:
    """Return the GPUs of a node, whose exporter may know only the first part of its name."""
    return [each for each in uses if each.node in (node, node.partition(".")[0])]


def mean(uses: Iterable[GpuUse]) -> float | None:
    """Return the mean use of GPUs, or None without any."""
    found = [each.used for each in uses]
    return statistics.fmean(found) if found else None


def _key(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in labels.items() if name != "__name__"))


def _query(expression: str, endpoint: str, region: str) -> list[tuple[dict[str, str], float]]:
    """Return the series of an expression. https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-onboard-query-APIs.html
    and https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries (read 2026-11-27)
    """
    import boto3
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError

    url = f"{endpoint.rstrip('/')}/api/v1/query?{urlencode({'query': expression})}"
    try:
        credentials = boto3.Session().get_credentials()
        if credentials is None:
            raise _unknown("this shell has no AWS credentials")
        request = AWSRequest("GET", url)
        SigV4Auth(credentials, "aps", region).add_auth(request)
        asked = urllib.request.Request(url, headers=dict(request.headers))
        with urllib.request.urlopen(asked, timeout=_SECONDS) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    except (OSError, ValueError, KeyError, BotoCoreError) as error:
        raise _unknown(_said(error)) from None
    return [(each["metric"], float(each["value"][1])) for each in result]


def _said(error: Exception) -> str:
    return (
        f"Amazon Managed Service for Prometheus answers {error}"
        if isinstance(error, urllib.error.HTTPError)
        else str(error)
    )


def _unknown(why: str) -> UsageError:
    return usage_error(
        "the use of the GPUs is unknown",
        why=why,
        fix="ask for aps:ListWorkspaces, aps:DescribeWorkspace, and aps:QueryMetrics: docs/watching.md",
    )
