"""A real Prometheus takes the scrape configuration of a cluster, and gets every metric that panels and alarms use."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.monitoring.arrivals import missing, missing_labels
from tests.monitoring.cluster_pods import NODE, PODS, cluster, discovered
from tests.monitoring.test_alarms import platform
from tests.ports import free_port
from tests.prometheus import Prometheus, program
from tests.seams.shapes import platforms
from trainway.monitoring.scraping import TOKEN_FILE, scrape_document
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.metrics import emitters_of_metric
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.platform import Platform

Document = dict[str, Any]
COLLECTED = {name: each for name, each in platforms().items() if collector_of(each) is Collector.AWS_MANAGED}
# The sections and keys that AWS names for its collectors, and those of its default configuration.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/managed-prometheus-collectors-scraper-configuration.html
# https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-collector-how-to.html (read 2026-11-27)
KEYS = {"job_name", "scheme", "relabel_configs", "metric_relabel_configs", "tls_config"}
KEYS |= {"kubernetes_sd_configs", "bearer_token_file"}


def written(document: Document, directory: Path) -> Path:
    """Write the configuration for Debian's Prometheus, and return the file.

    Debian builds Prometheus without the discovery of Kubernetes, so the targets and their labels are in a file. The
    token is one that only the collector has.
    """
    document, token = copy.deepcopy(document), directory / "token"
    token.write_text("secret")
    targets = directory / "targets.json"
    targets.write_text(json.dumps(discovered()))
    for job in document["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
        job["file_sd_configs"] = [{"files": [str(targets)]}]
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(document).replace(TOKEN_FILE, str(token)))
    return file


@pytest.mark.parametrize("name", COLLECTED)
def test_promtool_takes_the_configuration_and_it_is_within_the_limits_of_the_collector(
    name: str, tmp_path: Path
) -> None:
    document = scrape_document(COLLECTED[name], load_catalogue())
    for job in document["scrape_configs"]:
        assert set(job) <= KEYS
    assert document["global"]["scrape_interval"] == "30s", "the collector refuses a shorter interval"
    assert len(yaml.safe_dump(document)) < 256 * 1024
    file = written(document, tmp_path)
    done = subprocess.run([program("promtool"), "check", "config", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_platform_scrapes_what_it_installs_and_nothing_else() -> None:
    jobs = {
        name: {job["job_name"] for job in scrape_document(each, load_catalogue())["scrape_configs"]}
        for name, each in COLLECTED.items()
    }
    of_all = {"node", "kube-state-metrics", "efa", "dcgm", "runs"}
    assert jobs["collected-metrics"] == of_all | {"kueue"}
    assert jobs["collected-metrics-of-claims"] == of_all
    assert jobs["neuron"] == of_all - {"dcgm"} | {"kueue"}


@pytest.fixture(scope="module")
def eks() -> Platform:
    """A platform with the collector, and the team research."""
    return COLLECTED["collected-metrics"]


def scraped(eks: Platform, directory: Path, change: Callable[[Document], None] | None = None) -> Iterator[Prometheus]:
    """Run Prometheus with the configuration, five times as often as in AWS, against the stand-in of the cluster."""
    document: Document = copy.deepcopy(scrape_document(eks, load_catalogue()))
    if change:
        change(document)
    document["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    file = written(document, directory)
    with cluster(eks, directory, "secret"):
        port = free_port()
        command = [program("prometheus"), f"--config.file={file}", f"--web.listen-address=127.0.0.1:{port}"]
        command += [f"--storage.tsdb.path={directory / 'tsdb'}", "--log.level=error"]
        with subprocess.Popen(command) as running:
            try:
                yield Prometheus(port)
            finally:
                running.terminate()


def are_up(store: Prometheus, expected: dict[tuple[str, str], int]) -> bool:
    """Whether these targets of each job are up, and no others. A scrape that took longer than a second is not."""
    return {(labels["job"], labels["instance"]): value for labels, value in store.query("up")} == expected


def test_prometheus_gets_every_metric_of_the_panels_and_alarms_from_the_pods(eks: Platform, tmp_path: Path) -> None:
    for store in scraped(eks, tmp_path):
        assert missing(store, "eks") == set()
        assert missing_labels(store, "eks") == set()
        expected = {
            ("node", NODE): 1,
            ("dcgm", NODE): 1,
            ("efa", NODE): 1,
            ("kube-state-metrics", PODS[14][1]): 1,
            ("kueue", PODS[15][1]): 1,
            ("runs", PODS[16][1]): 1,
        }
        wait_for(f"these are up: {expected}", partial(are_up, store, expected))
        # The alarms join what the exporters of one node say by its name, and the pod of a GPU is that of the job.
        ((gpu, _),) = store.query("last_over_time(DCGM_FI_DEV_GPU_UTIL[5m])")
        assert gpu["instance"] == gpu["Hostname"] == NODE
        assert (gpu["namespace"], gpu["pod"]) == ("research", "llama-0")
        assert "pci_bus_id" not in gpu and "DCGM_FI_DRIVER_VERSION" not in gpu
        assert {labels["node"] for labels, _ in store.query("last_over_time(kube_node_status_condition[5m])")} == {NODE}
        stored = {labels["__name__"] for labels, _ in store.query('{__name__=~".+"}')}
        unused = {name for name in stored if not emitters_of_metric(name) and not name.startswith("scrape_")}
        assert unused == set(), "every sample is paid for"
        assert {labels["mode"] for labels, _ in store.query("node_cpu_seconds_total")} == {"idle"}


def _lose_a_port(document: Document) -> None:
    for job in document["scrape_configs"]:
        if job["job_name"] == "dcgm":
            job["relabel_configs"][3]["replacement"] = "$1:9401"


def _lose_the_token(document: Document) -> None:
    for job in document["scrape_configs"]:
        job.pop("bearer_token_file", None)


@pytest.mark.parametrize(
    ("change", "lost"), [(_lose_a_port, "DCGM_FI_DEV_GPU_UTIL"), (_lose_the_token, "kueue_pending_workloads")]
)
def test_a_wrong_port_and_a_missing_token_are_found(
    eks: Platform, tmp_path: Path, change: Callable[[Document], None], lost: str
) -> None:
    for store in scraped(eks, tmp_path, change):
        assert lost in missing(store, "eks", seconds=8)


def test_the_metrics_are_those_of_a_platform_with_the_same_devices(eks: Platform) -> None:
    assert collector_of(platform("eks")) is collector_of(eks) is Collector.AWS_MANAGED
