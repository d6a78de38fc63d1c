"""A real Prometheus in agent mode takes the scrape configuration of a Slurm cluster, and writes what is used."""

from __future__ import annotations

import contextlib
import copy
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from lifecycle_scripts.collector.follow import of_lines, target
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.lifecycle_scripts.test_exporters import dcgm, exporter
from tests.monitoring.arrivals import missing, missing_labels
from tests.monitoring.cluster_pods import served
from tests.monitoring.efa_device import make_efa_device
from tests.ports import free_port, own_loopback_network
from tests.prometheus import Prometheus, program
from tests.seams.slurm_node import slurm_platforms
from tests.training.test_exporter import DESCRIPTION, STEP, STRAGGLER
from trainway.monitoring.slurm_scraping import METRICS_ENDPOINT, TARGETS, slurm_scrape_document
from trainway.spec.facts import metrics_ports
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.observability.collection import Collector, collector_of

Document = dict[str, Any]
EXPORTERS = Path(__file__).resolve().parents[2] / "lifecycle_scripts" / "exporters"
COLLECTED = {name: each for name, each in slurm_platforms().items() if collector_of(each) is Collector.AGENT}
# The nodes by the last numbers of their loopback addresses: the controller, a GPU node, and a node without GPUs.
NETWORK = own_loopback_network()
CONTROLLER, TRAIN, PREPARE = f"{NETWORK}.10", f"{NETWORK}.11", f"{NETWORK}.12"
NAMES = {address: "ip-" + address.replace(".", "-") for address in (CONTROLLER, TRAIN, PREPARE)}
# As sinfo prints it. The partition `all` has every node.
SINFO = [f"{NAMES[TRAIN]}|{TRAIN}|{each}" for each in ("train", "all")]
SINFO += [f"{NAMES[PREPARE]}|{PREPARE}|{each}" for each in ("prepare", "all")]
# Programs that answer as Slurm's do, for the exporter of Slurm.
SLURM = {
    "sinfo": f"{NAMES[TRAIN]}|allocated|train|8/0/0/8\\n{NAMES[PREPARE]}|idle|prepare|0/8/0/8\\n",
    "squeue": "RUNNING|research|train|8|7|ada|research|llama\\nPENDING|research|train|8|8|ada|research|llama\\n",
    # The node of the job, and the names in the list of that node.
    "scontrol": "JobId=7 JobName=llama JOB_GRES=gpu:8   "
    f"Nodes={NAMES[TRAIN]} CPU_IDs=0 Mem=0 GRES=gpu:8 MinCPUsNode=1\\n",
    "sdiag": "Server thread count: 3\\n",
}


def test_nodes_listen_at_the_ports_that_are_scraped() -> None:
    step = (EXPORTERS.parent / "steps" / "50-exporters.sh").read_text()
    declared = re.search(r"^declare -A ports=\((.+)\)$", step, re.MULTILINE)
    assert declared
    ports = {name: int(port) for name, port in re.findall(r"\[(\w+)\]=(\d+)", declared.group(1))}
    assert ports == {
        "node": metrics_ports.NODE_METRICS_PORT,
        "efa": metrics_ports.EFA_METRICS_PORT,
        "dcgm": metrics_ports.DCGM_METRICS_PORT,
        "slurm": metrics_ports.SLURM_METRICS_PORT,
    }


def written(document: Document, directory: Path, receiver: str) -> Path:
    """Write the configuration with its targets, and the address of the receiver, and return the file."""
    targets = directory / "targets.json"
    heads = [target("controller", NAMES[CONTROLLER], CONTROLLER)]
    targets.write_text(json.dumps([*heads, *of_lines(SINFO)]))
    file = directory / "prometheus.json"
    text = json.dumps(document).replace(TARGETS, str(targets))
    file.write_text(text.replace(f"{METRICS_ENDPOINT}/api/v1/remote_write", receiver))
    return file


@pytest.mark.parametrize("name", COLLECTED)
def test_promtool_takes_the_configuration_for_an_agent(name: str, tmp_path: Path) -> None:
    document = slurm_scrape_document(COLLECTED[name], load_catalogue())
    file = written(document, tmp_path, "https://aps-workspaces.us-west-2.amazonaws.com/api/v1/remote_write")
    command = [program("promtool"), "check", "config", "--agent", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_platform_scrapes_what_its_nodes_have_and_nothing_else() -> None:
    platform = COLLECTED["slurm-collected"]
    groups = [each.model_copy(update={"instance_type": "m7i.8xlarge"}) for each in platform.node_groups]
    found = [
        {job["job_name"] for job in slurm_scrape_document(each, load_catalogue())["scrape_configs"]}
        for each in (platform, platform.model_copy(update={"node_groups": tuple(groups)}))
    ]
    assert found == [{"node", "slurm", "efa", "dcgm", "runs"}, {"node", "slurm", "runs"}]


def of_dcgm() -> str:
    """Return an answer of the exporter of DCGM for one GPU."""
    labels = {"gpu": "0", "UUID": "GPU-1", "device": "nvidia0", "modelName": "H100", "Hostname": NAMES[TRAIN]}
    families = [(f"DCGM_FI_{name}", kind, about, [(labels, 1.0)]) for name, kind, about in dcgm.FIELDS.values()]
    return str(exporter.exposition(families))


def own_exporter(name: str, address: str, port: int, before: str = "pass") -> list[str]:
    code = f"import sys, pathlib, {name}, exporter; {before}; exporter.main()"
    return [sys.executable, "-c", code, name, address, str(port)]


@contextlib.contextmanager
def exporters(directory: Path) -> Iterator[None]:
    """Run the exporters of the nodes. All are real, except the exporter of DCGM, which needs a GPU."""
    from training.observe.exporter import Exporter

    for name, said in SLURM.items():
        hostnames = f'[ "$2" = hostnames ] && exec echo {NAMES[TRAIN]}'
        (directory / name).write_text(f"#!/bin/sh\n{hostnames}\nprintf {shlex.quote(said)}\n")
        (directory / name).chmod(0o755)
    device = make_efa_device(directory)
    commands = [
        *(
            [program("prometheus-node-exporter"), f"--web.listen-address={address}:9100", "--no-collector.systemd"]
            for address in NAMES
        ),
        own_exporter("slurm", CONTROLLER, 9341),
        own_exporter("efa", TRAIN, 9109, f"efa.DEVICES = pathlib.Path({str(device.parent)!r})"),
    ]
    environment = {"PATH": f"{directory}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    with contextlib.ExitStack() as running:
        for command in commands:
            process = running.enter_context(subprocess.Popen(command, cwd=EXPORTERS, env=environment))
            running.callback(process.kill)
        running.enter_context(served(lambda *_: of_dcgm(), TRAIN, 9400))
        run = Exporter(TRAIN, 9464, DESCRIPTION, 50, resumed_from=None)
        running.callback(run.close)
        run.step(STEP)
        run.stragglers([STRAGGLER])
        # What another program of a job says at the port of runs.
        running.enter_context(served(lambda *_: "anything_else 1\n", PREPARE, 9464))
        yield


def collected(directory: Path, change: Callable[[Document], object] | None = None) -> Iterator[Prometheus]:
    """Run the agent against the exporters, thirty times as often as on a node, and yield what it writes to."""
    document: Document = copy.deepcopy(slurm_scrape_document(COLLECTED["slurm-collected"], load_catalogue()))
    document["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    # Signed, with keys of nobody.
    document["remote_write"][0]["sigv4"] |= {"access_key": "AKIAIOSFODNN7EXAMPLE", "secret_key": "nobodys"}
    if change:
        change(document)
    port, own = free_port(), free_port()
    store = Prometheus(port)
    file = written(document, directory, f"{store.address}/api/v1/write")
    (directory / "receiver.yml").write_text(yaml.safe_dump({}))
    receiver = [program("prometheus"), f"--config.file={directory / 'receiver.yml'}", "--log.level=error"]
    receiver += [f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver"]
    agent = [program("prometheus"), "--enable-feature=agent", f"--config.file={file}", "--log.level=error"]
    agent += [f"--web.listen-address=127.0.0.1:{own}", f"--storage.agent.path={directory / 'agent'}"]
    with exporters(directory), contextlib.ExitStack() as running:
        for command in ([*receiver, f"--storage.tsdb.path={directory / 'tsdb'}"], agent):
            process = running.enter_context(subprocess.Popen(command))
            running.callback(process.kill)
        yield store


def are_scraped(store: Prometheus, nodes: dict[str, set[str]]) -> bool:
    """Whether these are the nodes of each job. A node is absent until its first scrape, and after one that failed."""
    found = {job: {labels["instance"] for labels, _ in store.query(f'{{job="{job}"}}')} for job in nodes}
    return found == nodes


def test_every_metric_of_the_panels_and_alarms_arrives_by_the_name_of_its_node(tmp_path: Path) -> None:
    for store in collected(tmp_path):
        assert missing(store, "hyperpod-slurm") == set()
        assert missing_labels(store, "hyperpod-slurm") == set()
        expected = {
            "node": set(NAMES.values()),
            "slurm": {NAMES[CONTROLLER]},
            "efa": {NAMES[TRAIN]},
            "dcgm": {NAMES[TRAIN]},
            "runs": {NAMES[TRAIN]},
        }
        wait_for(f"the scraped nodes are {expected}", partial(are_scraped, store, expected))
        # The alarms join what the exporters of one node say by its name.
        of_node = "last_over_time(node_memory_MemTotal_bytes[5m])"
        joined = f"last_over_time(DCGM_FI_DEV_GPU_UTIL[5m]) and on (instance) {of_node}"
        ((gpu, _),) = store.answer(joined)
        assert gpu["instance"] == gpu["Hostname"] == NAMES[TRAIN]
        # An idle node has no run that answers.
        answering = {each["job"] for each, _ in store.answer("last_over_time(up[5m])")}
        assert answering == expected.keys() - {"runs"}
        for unused in ("(go|process|promhttp)_.*", "scrape_.*", "anything_else", "node_load1"):
            assert store.query(f'{{__name__=~"{unused}"}}') == [], unused


def _job(document: Document, name: str) -> Document:
    (found,) = [each for each in document["scrape_configs"] if each["job_name"] == name]
    return found


def _lose_a_port(document: Document) -> None:
    _job(document, "slurm")["relabel_configs"][1]["replacement"] = "$1:9342"


def _lose_a_group(document: Document) -> None:
    _job(document, "efa")["relabel_configs"][0]["regex"] = "train"


def _limit_samples(document: Document) -> None:
    _job(document, "node")["sample_limit"] = 3


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        # One planted error shows that the test above can fail.
        (_lose_a_port, "slurm_nodes_total"),
        pytest.param(_lose_a_group, "node_amazonefa_rx_drops", marks=pytest.mark.exhaustive),
        pytest.param(_limit_samples, "node_memory_MemTotal_bytes", marks=pytest.mark.exhaustive),
    ],
)
def test_a_wrong_port_a_wrong_group_and_a_low_limit_are_found(
    tmp_path: Path, change: Callable[[Document], object], lost: str
) -> None:
    for store in collected(tmp_path, change):
        assert lost in missing(store, "hyperpod-slurm", seconds=8)
