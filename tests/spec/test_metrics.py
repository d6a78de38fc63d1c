"""The list of metrics holds what the exporters really emit, and nothing that the platform does not have."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle_scripts.test_exporters import dcgm, exporter, slurm
from tests.ports import free_port
from tests.prometheus import program
from tests.synthesis import EXAMPLES
from trainway.manifests.chart_values import dcgm_fields
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.metrics import Emitter, emitters_of_metric, load_emitters
from trainway.spec.loader import load_platform
from trainway.spec.observability.collection import (
    Collector,
    collection_of,
    collector_of,
    key_that_asks,
    why_not_collected,
)
from trainway.spec.platform import Platform

NODES = ["n1|idle|dev|0/8/0/8", "n2|mixed|all|2/6/0/8"]
JOBS = ["PENDING|research|all|4|1|ada|research|a", "RUNNING|research|all|8|2|ada|research|b"]
DETAILS = ["JobId=2 JobName=b JOB_GRES=gpu:8   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7) MinCPUsNode=1"]
SDIAG = [f"{name}: 1" for name in slurm.SCHEDULER]


@pytest.mark.parametrize("emitter", list(load_emitters().values()), ids=lambda each: each.name)
def test_an_emitter_states_what_its_store_needs(emitter: Emitter) -> None:
    for name, metric in emitter.metrics.items():
        assert metric.under is None or set(metric.under) < set(emitter.under), name
        if emitter.store == "cloudwatch":
            assert emitter.namespace and metric.dimensions and metric.statistics and metric.kind is None
        else:
            assert metric.kind and not metric.dimensions and not metric.statistics and emitter.namespace is None


def test_only_a_metric_of_one_emitter_has_a_name() -> None:
    names = [name for each in load_emitters().values() for name in each.metrics]
    assert all(len(emitters_of_metric(name)) == 1 for name in names)


NONE = {"observability": {"metrics": "none"}}
SMALL = {"node_groups": [{"name": "train", "instance_type": "m7i.xlarge", "count": 1}]}
LATER = {"node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 0, "max_count": 4}]}


@pytest.mark.parametrize(
    ("orchestrator", "changes", "collector", "why"),
    [
        ("eks", {}, Collector.AWS_MANAGED, None),
        ("eks", NONE, None, None),
        ("eks", {"observability": {"metrics": "cloudwatch"}}, None, None),
        ("eks", {"kubernetes": {"observability": False}}, None, None),
        ("eks", NONE | {"kubernetes": {"observability": True}}, Collector.AWS_MANAGED, None),
        ("eks", {"region": "us-gov-west-1", "zones": ["usgw1-az1", "usgw1-az2"]}, None, "no AWS::APS::Scraper"),
        ("hyperpod-eks", {}, Collector.HYPERPOD_ADDON, None),
        ("hyperpod-eks", SMALL, None, "16 vCPUs or more"),
        ("hyperpod-eks", LATER, None, "16 vCPUs or more"),
        ("hyperpod-slurm", {}, Collector.AGENT, None),
        ("hyperpod-slurm", {"slurm": {"exporters": False}}, None, "`exporters` is false"),
        ("hyperpod-slurm", {"slurm": {"observability": False}}, None, None),
    ],
)
def test_a_platform_has_the_collector_of_its_orchestrator_or_a_reason(
    orchestrator: str, changes: dict[str, Any], collector: Collector | None, why: str | None
) -> None:
    base = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"], "orchestrator": orchestrator}
    groups = [{"name": "train", "instance_type": "p5.48xlarge", "count": 2}]
    platform = Platform.model_validate(base | {"node_groups": groups} | changes)
    assert collector_of(platform) is collector
    reason = why_not_collected(platform)
    assert reason is None if why is None else why in (reason or "")
    assert bool(key_that_asks(platform)) == (changes.get("kubernetes", {}).get("observability") is True)


def expected_and_emitted() -> Iterator[tuple[str, set[str]]]:
    families: list[Any] = [*slurm.nodes(NODES), *slurm.jobs(JOBS), *slurm.scheduler(SDIAG)]
    families.append(slurm.devices(JOBS, DETAILS, lambda lists: [[each] for each in lists]))
    yield "slurm", {name for name, _, _, found in families if found}
    yield "dcgm", {f"DCGM_FI_{name}" for name, _, _ in dcgm.FIELDS.values()}
    own = exporter.answers("some", list, 0.0)().decode()
    yield "exporter", set(re.findall(r"^# TYPE (\S+)", own, re.MULTILINE))


@pytest.mark.parametrize(("name", "emitted"), list(expected_and_emitted()), ids=["slurm", "dcgm", "exporter"])
def test_an_exporter_of_ours_emits_what_is_used_and_the_rest_is_listed_as_unused(name: str, emitted: set[str]) -> None:
    emitter = load_emitters()[name]
    used = {each for each in emitter.metrics if emitter.has(each, "hyperpod-slurm")}
    assert used <= emitted
    assert {each for each in emitted - used if not emitter.leaves_unused(each)} == set()


def test_the_real_node_exporter_emits_what_is_used() -> None:
    port = free_port()
    command = [program("prometheus-node-exporter"), f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    with subprocess.Popen(command) as running:
        try:
            names = set(re.findall(r"^# TYPE (\S+)", read(f"http://127.0.0.1:{port}/metrics"), re.MULTILINE))
        finally:
            running.kill()
    emitter = load_emitters()["node"]
    assert set(emitter.metrics) <= names
    assert {each for each in names - set(emitter.metrics) if not emitter.leaves_unused(each)} == set()


def read(address: str) -> str:
    for left in range(1000, -1, -1):
        try:
            with urllib.request.urlopen(address, timeout=120) as answer:
                return str(answer.read().decode())
        except OSError:
            if not left:
                raise
            time.sleep(0.1)
    raise AssertionError


# The counters of a port: EFA_DEFINE_PORT_STATS (read 2026-11-25).
# https://github.com/amzn/amzn-drivers/blob/master/kernel/linux/efa/src/efa_verbs.c
KERNEL = """
    tx_bytes tx_pkts rx_bytes rx_pkts rx_drops send_bytes send_wrs recv_bytes recv_wrs rdma_read_wrs rdma_read_bytes
    rdma_read_wr_err rdma_read_resp_bytes rdma_write_wrs rdma_write_bytes rdma_write_wr_err rdma_write_recv_bytes
    retrans_bytes retrans_pkts retrans_timeout_events unresponsive_remote_events impaired_remote_conn_events
"""


def test_an_efa_counter_that_is_used_is_one_of_the_drivers() -> None:
    used = {each.removeprefix("node_amazonefa_") for each in load_emitters()["efa"].metrics}
    assert used <= set(KERNEL.split())


def test_the_exporter_on_eks_has_the_fields_that_are_used_and_no_others() -> None:
    emitter = load_emitters()["dcgm"]
    exported = {line.partition(",")[0] for line in dcgm_fields().splitlines()}
    assert exported == {each for each in emitter.metrics if emitter.has(each, "eks")}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda each: each.stem)
def test_a_platform_emits_only_what_exists_under_its_orchestrator(file: Path) -> None:
    platform, catalogue = load_platform(file), load_catalogue()
    collection = collection_of(platform, catalogue)
    assert all(platform.orchestrator.value in each.under for each in collection.emitters)
    assert collection.has("DataReadBytes") is (platform.storage.lustre is not None)
    assert not collection.has("DCGM_FI_DEV_GPU_TEMPERATURE")
    has_exporters = platform.slurm_or_default.exporters and platform.orchestrator == "hyperpod-slurm"
    assert collection.has("slurm_nodes_down") is has_exporters
