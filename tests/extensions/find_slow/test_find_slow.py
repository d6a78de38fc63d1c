"""`trainway verify --find-slow` runs a job, reports the slow node by its name on the target, and prints advice."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.extensions.find_slow.test_slow_host import SETTINGS
from tests.launch.conftest import hand_off as hand_off
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.kubernetes.stand_in_api import Api
from tests.launch.slurm.machines import SWITCH, machines
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from tests.verify.test_nodes import WHY_NOT
from tests.verify.test_nodes import api as api
from tests.verify.test_repairs import EKS, SLURM, instance, run
from tests.verify.test_repairs import aws as aws
from tests.verify.test_repairs import deployed as deployed
from tests.verify.test_repairs import emulator as emulator
from trainway.extensions.find_slow import slow_search
from trainway.extensions.find_slow.rates import rates_of_log
from trainway.extensions.find_slow.show_rates import as_shown
from trainway.extensions.find_slow.slow_search import SlowSearch, judge_rates, rates_request, search_slow_nodes
from trainway.launch import kubernetes, slurm
from trainway.launch.kubernetes import KubernetesOptions
from trainway.launch.kubernetes.who_shares import RUN_LABEL
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.spec.handoff import HandOff
from trainway.spec.loader import load_platform
from trainway.verify import Expected, Status, probe_point
from trainway.verify.probe_job import rates_command
from trainway.verify.rates_program import MARK

NODES = ("ip-10-0-16-1", "ip-10-0-16-2", "ip-10-0-16-3")
P5 = CATALOGUE["p5.48xlarge"]


def log(names: Sequence[str], *, slow_pairs: float = 1, memory: float = 1, all_reduce: float = 450) -> str:
    """Return the output of the program on these nodes. The first node is slower than the others by the given shares."""
    pairs = [[one, two] for one in range(len(names)) for two in range(one + 1, len(names))]
    rates: list[Any] = [["gemm", [each], 700 + each] for each in range(len(names))]
    rates += [["memory", [each], 2900 * (1 if each else memory)] for each in range(len(names))]
    rates += [["pair all-reduce", pair, 400 * (1 if pair[0] else slow_pairs)] for pair in pairs]
    rates += [["cluster all-reduce", list(range(len(names))), all_reduce]]
    documents = ({"nodes": names, "bytes": 8 * 2**30}, {"rates": rates}, {"end": True})
    return "".join(f"{MARK}{json.dumps(each)}\n" for each in documents)


def searched(*, nodes: Sequence[str] = NODES, **slow: float) -> SlowSearch:
    return judge_rates(rates_of_log(log(nodes, **slow).splitlines()), Expected(len(nodes), P5))


def request_on(hand_off: HandOff, nodes: int) -> Request:
    program = probe_point(nodes, command=rates_command()).program
    request = Request(program, "find-slow-1126", hand_off, IMAGE, allocate(program, hand_off, CATALOGUE, "train"))
    return rates_request(request)


@pytest.mark.exhaustive
@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_a_node_of_slurm_with_a_shaped_link_is_named(hand_off: HandOff, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {f"TRAINWAY_RATES_{name}": str(value) for name, value in SETTINGS.items()}
    names = ["n1", "n2", "n3"]
    with machines(names) as cluster:
        monkeypatch.setenv("PATH", str(cluster.commands), prepend=":")
        # The ports of the nodes come after that of the controller.
        for port, mbit in ((11, 25), (12, 8), (13, 25)):
            words = f"tc qdisc add dev port{port} root tbf rate {mbit}mbit burst 16kb limit 4mb"
            inside = ["nsenter", f"--target={cluster.pids[SWITCH]}", "--net", "--"]
            subprocess.run([*inside, *words.split()], check=True, timeout=120)
        options = slurm.SlurmOptions(environment=PurePosixPath(sys.prefix))
        request = request_on(on_slurm(hand_off, mount=str(cluster.shared)), 3)
        request = replace(request, program=replace(request.program, environment=environment))
        search = search_slow_nodes(request, CATALOGUE, slurm.TARGET, options)
    assert search.rates.complete, search.results
    # The nodes share two processors with other tests, which can slow down the own rates of any node.
    pairs = [each for each in search.slow if each.measure.startswith("pair")]
    assert {each.nodes for each in pairs} == {("n2",)}, search.slow
    assert search.exit_status == 4


def test_a_node_of_kubernetes_is_called_by_its_own_name(api: Api) -> None:
    request, over = request_on(hand_off_of(platform_named("nobody")), 3), threading.Event()

    def controllers() -> None:
        while ("trainjobs", request.run) not in api.objects:
            if over.wait(0.05):
                return
        hostnames = [f"{request.run}-node-0-{index}" for index in range(3)]
        for index, hostname in enumerate(hostnames):
            name = f"{hostname}-x7k2p"
            api.logs[name] = "" if index else log(hostnames, slow_pairs=0.41)
            labels = {RUN_LABEL: request.run, "batch.kubernetes.io/job-completion-index": str(index)}
            ended = {"name": "node", "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "training", "uid": name, "labels": labels},
                "spec": {"hostname": hostname, "nodeName": NODES[index], "containers": [{"name": "node"}]},
                "status": {"phase": "Succeeded", "containerStatuses": [ended]},
            }
            api.put("pods", pod)
        api.objects["trainjobs", request.run]["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}

    thread = threading.Thread(target=controllers)
    thread.start()
    try:
        search = search_slow_nodes(request, CATALOGUE, kubernetes.TARGET, KubernetesOptions(kind="TrainJob"))
    finally:
        over.set()
        thread.join()
    assert [(each.check, each.node) for each in search.results if each.status is Status.FAILED] == [
        ("pair all-reduce", NODES[0])
    ]
    assert search.exit_status == 4


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (SLURM, ["scontrol update NodeName=ip-10-0-16-1 State=DRAIN", "--nodes 3 --find-slow --repair"]),
        (EKS, ["kubectl cordon ip-10-0-16-1", "kubectl drain ip-10-0-16-1", "aws ec2 terminate-instances"]),
    ],
)
def test_a_slow_node_is_printed_with_how_to_replace_it(file: Path, expected: list[str]) -> None:
    shown = as_shown(searched(memory=0.5), load_platform(file), "train")
    assert "memory           ip-10-0-16-1  FAILED   0.50 of the median of the other nodes" in shown.text
    assert "ip-10-0-16-1           700         1450" in shown.text
    assert all(each in shown.advice for each in expected), shown.advice
    [slow] = shown.document["slow"]
    assert (slow["measure"], slow["nodes"], slow["share"]) == ("memory", ["ip-10-0-16-1"], 0.5)
    assert len(shown.document["rates"]) == 10


def test_nodes_that_are_alike_are_told_as_such_and_the_all_reduce_keeps_its_floor() -> None:
    platform = load_platform(SLURM)
    alike = searched()
    shown = as_shown(alike, platform, "train")
    assert (alike.exit_status, shown.advice) == (0, "")
    assert "2900 to 2900 GB/s, median 2900" in shown.text
    # All nodes are equally slow, so none is named, and the published bandwidth shows it.
    slow_cluster = searched(all_reduce=30)
    assert (slow_cluster.slow, slow_cluster.exit_status) == ((), 1)


def test_two_nodes_with_a_slow_pair_are_both_named_in_the_question() -> None:
    search = searched(nodes=NODES[:2], slow_pairs=0.1, all_reduce=30)
    assert search.slow == ()
    assert search.exit_status == 1
    [pair] = [each for each in search.results if each.check == "pair all-reduce"]
    assert pair.sentence == (
        "40 GB/s between ip-10-0-16-1 and ip-10-0-16-2, which do not show which of them is slow if one is: "
        "test 3 nodes or more"
    )


@pytest.mark.usefixtures("deployed")
def test_a_slow_node_is_tested_by_hyperpod_and_the_status_is_that_of_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slow_search, "search_slow_nodes", lambda *_: searched(slow_pairs=0.4))
    status, output = run("--find-slow", "--nodes=2")
    assert status == 4 and "trainway verify" in output and "State=DRAIN" in output
    status, output = run("--find-slow", "--nodes=2", "--repair", "--yes", "--json")
    document = json.loads(output)
    assert status == document["exit_status"] == 4
    [request] = document["repair"]["requests"]
    assert (request["operation"], request["nodes"]) == ("StartClusterHealthCheck", {instance(1): NODES[0]})


@pytest.mark.parametrize(("arguments", "reason"), [(["--nodes=1"], "--nodes 4"), (["--run=x"], "leave out --run")])
def test_what_cannot_be_compared_is_refused(arguments: list[str], reason: str) -> None:
    status, output = run("--find-slow", *arguments)
    assert status == 2 and reason in output
