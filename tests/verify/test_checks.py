"""The checks name the node that is not as it ought to be, and are silent about those that are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainway.launch.kubernetes.known_nodes import allocatable_devices
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.files import read_facts
from trainway.spec.facts.versions import VERSIONS_FILE, Versions
from trainway.spec.loader import load_platform
from trainway.verify import (
    Expected,
    Facts,
    Status,
    as_document,
    as_table,
    exit_status,
    fabric_of_job,
    facts_of_log,
    run_checks,
)
from trainway.verify.facts import expected_versions
from trainway.verify.probe import MARK
from trainway.verify.results import Result

ROOT = Path(__file__).parents[2]
LOGS = Path(__file__).parent / "logs"
P5 = load_catalogue()["p5.48xlarge"]


def versions() -> dict[str, str]:
    platform = load_platform(ROOT / "examples" / "eks-p5.yaml")
    return expected_versions(platform, load_catalogue(), Versions.model_validate(read_facts(VERSIONS_FILE)))


def node(name: str, index: int = 0, **changes: Any) -> str:
    """What the probe prints on a healthy P5 node, with some of it changed."""
    facts = {
        "node": name,
        "index": index,
        "efa_devices": 32,
        "uverbs": 32,
        "memlock_bytes": -1,
        "gpus": 8,
        "driver": "580.95.05",
        "clock_offset_seconds": 0.0004,
        "file_system": {"path": "/fsx/runs/verify", "write_mbps": 1873.2, "read_mbps": 2290.4, "error": None},
        "dcgm": None,
        **versions(),
        **changes,
    }
    return f"[{name} 0] {MARK}{json.dumps(facts)}\n"


def nccl(name: str, way: str = "Libfabric/0/GDRDMA") -> str:
    return (
        f"{name}:188:585 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)\n"
        f"{name}:188:585 [0] NCCL INFO comm 0x5ac0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n"
        f"{name}:188:612 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/{way}\n"
    )


SWEEP = (LOGS / "all-reduce-p5.txt").read_text()
HEALTHY = node("ip-1") + node("ip-2", 1) + nccl("ip-1") + nccl("ip-2") + SWEEP


def facts(text: str = HEALTHY, nodes: int = 2, **options: Any) -> Facts:
    return facts_of_log(text, Expected(nodes, P5, versions()), **options)


def failed(results: tuple[Result, ...]) -> list[tuple[str, str | None]]:
    return [(each.check, each.node) for each in results if each.status is Status.FAILED]


def test_healthy_nodes_pass_every_check() -> None:
    results = run_checks(facts())
    assert failed(results) == []
    assert exit_status(results) == 0
    assert sum(each.status is Status.OK for each in results) >= 15


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"efa_devices": 31}, "efa devices", "31 of 32"),
        ({"efa_devices": 0, "uverbs": 0}, "efa devices", "no /dev/infiniband in the container"),
        ({"efa_devices": 0}, "efa devices", "no efa provider"),
        ({"gpus": 7}, "gpus", "7 of 8 GPUs"),
        ({"memlock_bytes": 65536}, "locked memory", "64 KiB"),
        ({"aws_ofi_nccl": "1.14.0"}, "versions", "aws_ofi_nccl is 1.14.0, expected"),
        ({"libfabric": None}, "versions", "libfabric is not there"),
        ({"clock_offset_seconds": -7.5}, "clock", "-7500 ms"),
        ({"file_system": {"path": "/fsx", "error": "No space left on device"}}, "file system", "No space left"),
        (
            {"dcgm": {"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "pcie", "results": [
                {"entity_group": "GPU", "entity_id": 5, "status": "Fail", "warnings": []}]}]}]}}},
            "gpu health",
            "GPU 5 failed pcie",
        ),
    ],
)  # fmt: skip
def test_the_node_with_a_fault_is_named_and_the_fault_with_it(changes: dict[str, Any], check: str, words: str) -> None:
    text = HEALTHY.replace(node("ip-2", 1), node("ip-2", 1, **changes))
    results = run_checks(facts(text))
    assert failed(results) == [(check, "ip-2")]
    (result,) = (each for each in results if each.status is Status.FAILED)
    assert words in result.sentence
    assert exit_status(results) == 1


def test_a_node_that_says_net_socket_is_named() -> None:
    results = run_checks(facts(HEALTHY.replace(nccl("ip-2"), nccl("ip-2", "Socket/0"))))
    assert failed(results) == [("nccl", "ip-2")]


def test_efa_without_gpudirect_rdma_fails_where_the_type_has_it() -> None:
    text = HEALTHY.replace(nccl("ip-1"), nccl("ip-1", "Libfabric/0"))
    assert failed(run_checks(facts(text))) == [("nccl", "ip-1")]
    g5 = load_catalogue()["g5.48xlarge"]
    assert failed(fabric_of_job(nccl("ip-1", "Libfabric/0"), g5, 2)) == []


def test_a_node_that_does_not_answer_is_missed() -> None:
    results = run_checks(facts(HEALTHY, nodes=3))
    assert failed(results) == [("nodes", None)]


def test_an_all_reduce_below_the_floor_fails_and_says_of_what() -> None:
    slow = HEALTHY.replace(SWEEP, "\n".join(SWEEP.splitlines()[:22]) + "\n")
    (result,) = (each for each in run_checks(facts(slow)) if each.status is Status.FAILED)
    assert result.check == "all-reduce"
    assert "published for 2 nodes" in result.sentence


def test_an_all_reduce_that_never_came_fails() -> None:
    assert failed(run_checks(facts(HEALTHY.replace(SWEEP, "")))) == [("all-reduce", None)]


def test_one_node_needs_no_network() -> None:
    alone = node("ip-1") + SWEEP
    assert failed(run_checks(facts(alone, nodes=1))) == []


def test_kubernetes_has_to_give_away_every_device() -> None:
    nodes = {
        "items": [
            {
                "metadata": {"name": name},
                "status": {"allocatable": {"cpu": "190", "nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": efa}},
            }
            for name, efa in (("ip-1", "32"), ("ip-2", "0"))
        ]
    }
    results = run_checks(facts(allocatable=allocatable_devices(nodes)))
    assert failed(results) == [("allocatable", "ip-2")]


def test_a_line_of_the_probe_that_was_cut_off_is_a_node_that_did_not_answer() -> None:
    text = HEALTHY.replace(node("ip-2", 1), node("ip-2", 1)[:90] + "\n")
    assert ("nodes", None) in failed(run_checks(facts(text)))


def test_the_first_minute_of_a_job_tells_whether_it_uses_efa() -> None:
    good = fabric_of_job((LOGS / "efa-p4d-pods.log").read_text(), load_catalogue()["p4d.24xlarge"], 4)
    assert [each.status for each in good] == [Status.OK]
    mixed = fabric_of_job((LOGS / "efa-p4d-pods.log").read_text() + (LOGS / "sockets.log").read_text(), P5, 4)
    assert failed(mixed) == [("nccl", "cluster-1")]
    silent = fabric_of_job("step=1/2 loss=11.7\n", P5, 2)
    assert failed(silent) == [("nccl", None)]
    assert "NCCL_DEBUG" in silent[0].sentence


def test_an_image_of_ones_own_has_no_versions_to_compare() -> None:
    results = run_checks(facts_of_log(HEALTHY, Expected(2, P5)))
    assert ("versions", Status.SKIPPED) in [(each.check, each.status) for each in results]
    assert set(versions()) == {"libfabric", "aws_ofi_nccl", "nccl", "cuda", "torch"}


def test_people_get_a_table_with_failures_last_and_machines_a_document() -> None:
    text = HEALTHY.replace(node("ip-2", 1), node("ip-2", 1, gpus=7))
    results = run_checks(facts(text))
    lines = as_table(results).splitlines()
    assert lines[-2].split() == ["gpus", "ip-2", "FAILED", "7", "of", "8", "GPUs"]
    assert lines[-1] == f"1 of {len(results)} checks failed."
    document = json.loads(json.dumps(as_document(results)))
    assert document["exit_status"] == 1
    assert {"check": "gpus", "node": "ip-2", "status": "failed", "sentence": "7 of 8 GPUs"} in document["results"]
