"""The scrape configuration of a platform whose metrics an AWS managed collector collects.

The collector takes Prometheus' own format, finds pods through the Kubernetes API, and connects to them from the cluster
subnets. It scrapes every 30 seconds or less often.
https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-collector-how-to.html (read 2026-11-27)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainway.manifests.efa_exporter import NAMESPACE as EFA_NAMESPACE
from trainway.manifests.efa_exporter import efa_exporter
from trainway.manifests.namespace import namespaces
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.metrics import load_emitters
from trainway.spec.facts.metrics_ports import (
    DCGM_METRICS_PORT,
    EFA_METRICS_PORT,
    KUEUE_METRICS_PORT,
    NODE_METRICS_PORT,
    RUN_METRICS_PORT,
    STATE_METRICS_PORT,
)
from trainway.spec.kubernetes.addons import NODE_EXPORTER, STATE_METRICS
from trainway.spec.kubernetes.charts import DCGM_EXPORTER, KUEUE, chart_names
from trainway.spec.observability.samples import SCRAPE_SECONDS
from trainway.spec.platform import Platform

RUN_LABEL = "trainway.dev/run"
# As in the collector's own default configuration, for pods that ask who scrapes them.
TOKEN_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/token"
# Of the seconds that each processor spends in eight modes, panels use those without work.
_BUSY = "user|nice|system|iowait|irq|softirq|steal"
_IDLE = {"source_labels": ["__name__", "mode"], "regex": f"node_cpu_seconds_total;({_BUSY})", "action": "drop"}


def scrape_document(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    """Return the Prometheus configuration, with a scrape job for each exporter and one for the runs of all teams."""
    charts = chart_names(platform, catalogue)
    has_efa = bool(efa_exporter(platform, catalogue))
    kueue = {"scheme": "https", "bearer_token_file": TOKEN_FILE, "tls_config": {"insecure_skip_verify": True}}
    jobs = [
        _of_nodes("node", NODE_METRICS_PORT, NODE_EXPORTER, ("node",)),
        _job("kube-state-metrics", STATE_METRICS_PORT, [_namespace(STATE_METRICS)], ("kube",)),
        *([_of_nodes("efa", EFA_METRICS_PORT, EFA_NAMESPACE, ("efa", "exporter"))] if has_efa else []),
        *([_dcgm()] if DCGM_EXPORTER in charts else []),
        *(
            [_job("kueue", KUEUE_METRICS_PORT, [_namespace("kueue-system"), _named(KUEUE)], ("kueue",), kueue)]
            if KUEUE in charts
            else []
        ),
        _runs(platform),
    ]
    return {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": "10s"},
        "scrape_configs": jobs,
    }


def _job(
    name: str,
    port: int,
    kept: list[dict[str, Any]],
    emitters: tuple[str, ...],
    more: Mapping[str, Any] | None = None,
    instance: str = "pod_name",
) -> dict[str, Any]:
    """Return a Prometheus scrape job for one port of the matching pods, which keeps the used metrics of the emitters.

    A pod with several declared ports is discovered once for each of them. The equal targets are scraped once.
    """
    return {
        "job_name": name,
        **(more or {}),
        "kubernetes_sd_configs": [{"role": "pod"}],
        "relabel_configs": [
            *kept,
            keep("__meta_kubernetes_pod_phase", "Running"),
            relabel("__address__", "__meta_kubernetes_pod_ip", f"$1:{port}"),
            relabel("instance", f"__meta_kubernetes_{instance}", "$1"),
        ],
        "metric_relabel_configs": used_series(*emitters),
    }


def used_series(*emitters: str) -> list[dict[str, Any]]:
    """Return the rules that keep the series of some emitters which panels or alarms use. Every sample is paid for."""
    names = sorted({metric for emitter in emitters for metric in load_emitters()[emitter].metrics})
    return [keep("__name__", "|".join(names)), *([_IDLE] if "node" in emitters else [])]


def _of_nodes(name: str, port: int, namespace: str, emitters: tuple[str, ...]) -> dict[str, Any]:
    """Return the job of an exporter with a pod on each node. Its instance is the name of the node, without a port.

    The alarms join the metrics of the exporters of one node by that name.
    """
    return _job(name, port, [_namespace(namespace)], emitters, instance="pod_node_name")


def _dcgm() -> dict[str, Any]:
    kept = [_namespace("kube-system"), _named(DCGM_EXPORTER)]
    job = _job("dcgm", DCGM_METRICS_PORT, kept, ("dcgm",), instance="pod_node_name")
    # The alarms compare GPUs without what is only of one GPU. UUID names it.
    job["metric_relabel_configs"].append({"regex": "pci_bus_id|DCGM_FI_DRIVER_VERSION", "action": "labeldrop"})
    return job


def _runs(platform: Platform) -> dict[str, Any]:
    of_teams = keep("__meta_kubernetes_namespace", "|".join(namespaces(platform)))
    return _job("runs", RUN_METRICS_PORT, [of_teams, keep(_label(RUN_LABEL), ".+")], ("run",))


def _namespace(name: str) -> dict[str, Any]:
    return keep("__meta_kubernetes_namespace", name)


def _named(name: str) -> dict[str, Any]:
    return keep(_label("app.kubernetes.io/name"), name)


def _label(name: str) -> str:
    """Return the name that Prometheus gives to the label of a pod."""
    return "__meta_kubernetes_pod_label_" + name.replace(".", "_").replace("/", "_")


def keep(label: str, values: str) -> dict[str, Any]:
    """Return a relabeling rule that keeps targets or series whose label matches a pattern as a whole."""
    return {"source_labels": [label], "regex": values, "action": "keep"}


def relabel(label: str, source: str, value: str) -> dict[str, Any]:
    """Return a relabeling rule that sets a label to a value, in which `$1` is the value of the label `source`."""
    return {"source_labels": [source], "target_label": label, "replacement": value, "action": "replace"}
