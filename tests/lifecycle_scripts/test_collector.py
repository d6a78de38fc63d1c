"""The controller collects the metrics of all nodes with Debian's Prometheus, and writes them to another Prometheus."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.lifecycle_scripts.nodes import DOWNLOADED, NETWORK, ROUTER, Lab, Node, missing, nodes
from tests.lifecycle_scripts.steps import keep_steps, run_step
from tests.prometheus import program
from tests.seams.slurm_node import slurm_platforms
from trainway.monitoring.slurm_scraping import METRICS_ENDPOINT, slurm_scrape_document
from trainway.spec.facts.catalogue import load_catalogue

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

DOCUMENT = "data/lifecycle_scripts/slurm-scraping.json"
PROGRAM = f"{DOWNLOADED}/yours/packages/collector/prometheus-2.42.0.gz"
RECEIVER = f"{NETWORK}.{ROUTER}:9090"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A controller, a login node, and a compute node with exporters, and a receiver of what the controller writes."""
    groups = {"controller": ["ctl"], "login": ["login"], "train": ["n1"]}
    parameters = {"exporters": True, "slurm_scraping": {"s3_uri": f"s3://{DOCUMENT}", "region": "us-west-2"}}
    with nodes(tmp_path_factory.mktemp("lab"), groups, parameters=parameters, disk_megabytes=1024) as made:
        keep_steps(made, "20-lustre", "30-slurm", "50-exporters", "52-collector")
        write_document(made)
        deliver(made["ctl"])
        for name, done in made.provision().items():
            made[name].write("/root/provisioned", done.stdout)
            assert done.returncode == 0, done.stdout
        with subprocess.Popen(made.within(*receiver(made.directory))) as running:
            yield made
            running.terminate()


def receiver(directory: Path) -> list[str]:
    """Return the command of a Prometheus without scrape jobs that accepts remote writes."""
    (directory / "receiver.yml").write_text("{}")
    command = [program("prometheus"), f"--config.file={directory / 'receiver.yml'}", "--log.level=error"]
    return [
        *command,
        f"--web.listen-address={RECEIVER}",
        "--web.enable-remote-write-receiver",
        f"--storage.tsdb.path={directory / 'tsdb'}",
    ]


def write_document(lab: Lab, change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """Upload a scrape configuration for the controller, with 15 times the scrape rate and invalid credentials."""
    document = slurm_scrape_document(slurm_platforms()["slurm-collected"], load_catalogue())
    document["global"] = {"scrape_interval": "2s", "scrape_timeout": "2s"}
    (target,) = document["remote_write"]
    target["sigv4"] |= {"access_key": "AKIAIOSFODNN7EXAMPLE", "secret_key": "nobodys"}
    place = lab.s3 / DOCUMENT
    place.parent.mkdir(parents=True, exist_ok=True)
    # Prometheus itself takes metrics at another path than Amazon's service.
    assert target["url"] == f"{METRICS_ENDPOINT}/api/v1/remote_write"
    target["url"] = f"http://{RECEIVER}/api/v1/write"
    change(document)
    place.write_text(json.dumps(document))


def deliver(node: Node, appended: bytes = b"") -> None:
    """Copy this machine's Prometheus beside the lifecycle scripts, as the deploy does. `appended` damages the copy."""
    # Without compression, which would take more CPU time than the step.
    packed = gzip.compress(Path(program("prometheus")).read_bytes(), 0)
    place = node.root / PROGRAM.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(packed + appended)
    checksum = f"{hashlib.sha256(packed).hexdigest()}  collector/{place.name}\n"
    (place.parent.parent / "SHA256SUMS").write_text(checksum)


def follow(ctl: Node) -> None:
    ctl.run("systemctl", "start", "trainway-collector-nodes")


def stored(lab: Lab, expression: str) -> list[dict[str, str]]:
    """Return the labels of the series of an expression that the receiver has now."""
    url = f"http://{RECEIVER}/api/v1/query?query={quote(expression)}"
    done = subprocess.run(lab.within("curl", "--silent", "--fail", url), capture_output=True, text=True)
    found = json.loads(done.stdout)["data"]["result"] if done.returncode == 0 else []
    return [each["metric"] for each in found]


def eventually(lab: Lab, expression: str, wanted: set[str]) -> set[str]:
    """Wait until an expression has the wanted instances, or until the time is over, and return the instances."""
    deadline = time.monotonic() + 300
    while (found := {each["instance"] for each in stored(lab, expression)}) != wanted:
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    return found


def listed(ctl: Node) -> dict[str, tuple[str, str]]:
    """Return the role and the partitions of each listed node by node name."""
    targets = json.loads((ctl.root / "opt/trainway/collector/targets.json").read_text())
    labels = [each["labels"] for each in targets]
    return {each["__meta_name"]: (each["__meta_role"], each["__meta_partitions"]) for each in labels}


def settings(ctl: Node) -> dict[str, str]:
    """Return the files of the collector on the node, without its write-ahead log."""
    return {name: each for name, each in ctl.snapshot(times=True).items() if "/var/lib/trainway-collector" not in name}


@pytest.mark.exhaustive
def test_the_metrics_of_every_node_and_of_slurm_arrive_by_the_names_of_the_nodes(lab: Lab) -> None:
    names = {lab[name].hostname for name in ("ctl", "login", "n1")}
    assert eventually(lab, "node_memory_MemTotal_bytes", names) == names
    assert eventually(lab, "slurm_nodes_total", {lab["ctl"].hostname}) == {lab["ctl"].hostname}
    for unused in ('{__name__=~"(go|process|promhttp)_.*"}', "node_load1"):
        assert stored(lab, unused) == []
    # The alarm about exporters that are gone needs it.
    assert {each["instance"] for each in stored(lab, 'up{job="node"}')} >= names
    assert listed(lab["ctl"]) == {
        lab["ctl"].hostname: ("controller", ",,"),
        lab["login"].hostname: ("login", ",,"),
        lab["n1"].hostname: ("compute", ",train,"),
    }


def test_a_node_that_goes_is_scraped_no_more_and_one_that_comes_is_found(lab: Lab) -> None:
    ctl, name = lab["ctl"], lab["n1"].hostname
    ctl.run("mv", "/opt/slurm/bin/sinfo", "/opt/slurm/bin/sinfo.real")
    try:
        without = f'/opt/slurm/bin/sinfo.real "$@" | grep -v "^{name}|"'
        ctl.write("/opt/slurm/bin/sinfo", f"#!/bin/sh\n{without}\nexit 0\n", 0o755)
        follow(ctl)
        assert name not in listed(ctl)
        others = {lab["ctl"].hostname, lab["login"].hostname}
        assert eventually(lab, "node_memory_MemTotal_bytes", others) == others
    finally:
        ctl.run("mv", "/opt/slurm/bin/sinfo.real", "/opt/slurm/bin/sinfo")
    follow(ctl)
    every = {lab[each].hostname for each in ("ctl", "login", "n1")}
    assert name in eventually(lab, "node_memory_MemTotal_bytes", every)


def test_a_changed_document_is_followed_and_a_wrong_one_changes_nothing(lab: Lab) -> None:
    ctl = lab["ctl"]
    # Until systemd executes Prometheus, the main process of the service is a copy of systemd.
    ctl.run("bash", "-c", "until (</dev/tcp/127.0.0.1/9343) 2>/dev/null; do sleep 0.1; done", timeout=300)
    main = ctl.run("systemctl", "show", "--value", "--property=MainPID", "trainway-collector").stdout

    def relabel(document: dict[str, Any]) -> None:
        document["global"]["external_labels"] = {"follows": "yes"}

    try:
        write_document(lab, relabel)
        follow(ctl)
        names = {lab[each].hostname for each in ("ctl", "login", "n1")}
        assert eventually(lab, 'node_memory_MemTotal_bytes{follows="yes"}', names) == names
        write_document(lab, lambda document: document["scrape_configs"][0].update(scrape_intervals="2s"))
        ctl.run("systemctl", "start", "trainway-collector-nodes", check=False)
        assert ctl.run("systemctl", "show", "--value", "--property=MainPID", "trainway-collector").stdout == main
        assert ctl.run("systemctl", "is-active", "trainway-collector").stdout == "active\n"
    finally:
        write_document(lab)
        follow(ctl)


def test_an_empty_document_ends_the_collector_and_the_next_starts_it(lab: Lab) -> None:
    ctl = lab["ctl"]
    try:
        (lab.s3 / DOCUMENT).write_text("{}")
        follow(ctl)
        done = ctl.run("systemctl", "is-active", "trainway-collector", check=False)
        assert done.stdout == "inactive\n"
    finally:
        write_document(lab)
        follow(ctl)
    assert ctl.run("systemctl", "is-active", "trainway-collector").stdout == "active\n"


def test_the_collector_has_limits_and_no_capability_and_answers_on_the_node_alone(lab: Lab) -> None:
    ctl = lab["ctl"]
    # Until systemd executes Prometheus, the main process of the service is a copy of systemd.
    ctl.run("bash", "-c", "until (</dev/tcp/127.0.0.1/9343) 2>/dev/null; do sleep 0.1; done", timeout=300)
    main = ctl.run("systemctl", "show", "--value", "--property=MainPID", "trainway-collector").stdout.strip()
    assert ctl.run("readlink", f"/proc/{main}/exe").stdout == "/opt/trainway/collector/prometheus\n"
    lines = ctl.run("cat", f"/proc/{main}/status").stdout.splitlines()
    status = dict(line.split(":\t", 1) for line in lines if "\t" in line)
    assert (int(status["CapEff"], 16), status["NoNewPrivs"].strip()) == (0, "1")
    shown = ctl.run("systemctl", "show", "--property=MemoryMax,CPUQuotaPerSecUSec", "trainway-collector").stdout
    assert set(shown.split()) == {f"MemoryMax={4 * 1024**3}", "CPUQuotaPerSecUSec=2s"}
    listening = ctl.run("ss", "-Hltn", "sport", "=", ":9343").stdout.split()
    assert "127.0.0.1:9343" in listening


def test_the_step_changes_nothing_again_and_other_nodes_collect_nothing(lab: Lab) -> None:
    ctl = lab["ctl"]
    before = settings(ctl)
    assert "the metrics of all nodes are collected" in run_step(ctl, "52-collector").stdout
    assert settings(ctl) == before
    assert run_step(lab["n1"], "52-collector").stdout == "this node collects no metrics, nothing to do\n"


def test_a_platform_file_without_the_key_ends_the_collector(lab: Lab) -> None:
    ctl = lab["ctl"]
    run_step(ctl, "52-collector", SLURM_SCRAPING_S3_URI="")
    units = ("trainway-collector.service", "trainway-collector-nodes.timer")
    assert ctl.run("systemctl", "is-active", *units, check=False).stdout.split() == ["inactive", "inactive"]
    assert "the metrics of all nodes are collected" in run_step(ctl, "52-collector").stdout


def test_a_node_without_what_was_delivered_says_so_and_works(lab: Lab) -> None:
    fresh = lab["login"]
    collects = {"NODE_ROLE": "controller", "COLLECTOR_WAIT_SECONDS": "1"}
    done = run_step(fresh, "52-collector", **collects)
    assert done.returncode == 0
    assert "WARNING: no Prometheus was delivered for this node, and its image has none" in done.stdout
    deliver(fresh, b"changed")
    done = run_step(fresh, "52-collector", **collects)
    assert done.returncode == 0
    assert "WARNING: prometheus-2.42.0.gz is not what was delivered: deploy" in done.stdout
    assert not (fresh.root / "opt/trainway/collector/prometheus").exists()
