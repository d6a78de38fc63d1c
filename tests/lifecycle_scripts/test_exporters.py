"""What exporters read and answer, without a node: EFA's counters, DCGM's rows, and an answer when they fail."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

EXPORTERS = Path(__file__).resolve().parents[2] / "lifecycle_scripts" / "exporters"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"exporters_{name}", EXPORTERS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


exporter, efa, dcgm, slurm = map(load, ("exporter", "efa", "dcgm", "slurm"))


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """By name and labels, with counters by the names that they have in the text."""
    from prometheus_client.parser import text_string_to_metric_families

    families = text_string_to_metric_families(text)
    found = [each for family in families for each in family.samples]
    names = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))

    def name(sample: Any) -> str:
        return sample.name if sample.name in names else sample.name.removesuffix("_total")

    return {(name(each), frozenset(each.labels.items())): each.value for each in found}


labels = st.dictionaries(st.from_regex(r"[a-z]\w{0,5}", fullmatch=True).filter(str.isascii), st.text(max_size=9))
values = st.floats(allow_nan=False)


@given(st.lists(st.tuples(labels, values), min_size=1, max_size=3, unique_by=lambda each: frozenset(each[0].items())))
def test_prometheus_reads_exactly_what_was_meant(given: list[tuple[dict[str, str], float]]) -> None:
    text = exporter.exposition([("some_metric", "gauge", 'A "help"\nwith \\ in it.', given)])
    assert samples(text) == {("some_metric", frozenset(pairs.items())): value for pairs, value in given}


@contextmanager
def serving(collect: Any, fresh_seconds: float = 0.0) -> Iterator[str]:
    server = exporter.server(exporter.answers("some", collect, fresh_seconds), "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=120) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return answer.read().decode()


def test_a_collector_that_fails_is_a_metric_and_the_next_may_succeed(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes: list[Any] = [OSError("no such device"), [("a_b", "gauge", "x", [({}, 1.0)])]]

    def collect() -> Any:
        if isinstance(outcome := outcomes.pop(0), Exception):
            raise outcome
        return outcome

    success = ("trainway_collector_success", frozenset({("collector", "some")}))
    with serving(collect) as address:
        assert samples(read(f"{address}/metrics"))[success] == 0
        second = samples(read(f"{address}/metrics"))
    assert (second[success], second["a_b", frozenset()]) == (1, 1)
    assert "some: OSError: no such device" in capsys.readouterr().err


def test_however_many_scrape_it_is_asked_once() -> None:
    asked = []

    def collect() -> list[Any]:
        asked.append(1)
        time.sleep(0.2)
        return []

    with serving(collect, fresh_seconds=30) as address:
        readers = [threading.Thread(target=read, args=[f"{address}/metrics"]) for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert len(asked) == 1


def test_there_is_nothing_else_to_read() -> None:
    with serving(list) as address, pytest.raises(urllib.error.HTTPError, match="404"):
        read(f"{address}/etc/passwd")


def test_efa_has_every_counter_of_every_port_and_no_other_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = tmp_path / "class"
    for device, driver in (("rdmap0s6", "efa"), ("rdmap1s6", "efa"), ("mlx5_0", "mlx5_core")):
        (tmp_path / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        counters = devices / device / "ports/1/hw_counters"
        counters.mkdir(parents=True)
        (devices / device / "device").mkdir()
        (devices / device / "device/driver").symlink_to(tmp_path / "drivers" / driver)
        (counters / "rdma_read_bytes").write_text("1234\n")
        (counters / "lifespan").write_text("12\n")
    (devices / "rdmap0s6/ports/1/hw_counters/rx_drops").write_text("5\n")
    (devices / "rdmap1s6/ports/1/hw_counters/rx_drops").write_text("broken\n")
    monkeypatch.setattr(efa, "DEVICES", devices)
    found = samples(exporter.exposition(efa.collect()))
    ports = {name: frozenset({("device", name), ("port", "1")}) for name in ("rdmap0s6", "rdmap1s6")}
    assert found == {
        ("node_amazonefa_info", frozenset({("device", "rdmap0s6")})): 1,
        ("node_amazonefa_info", frozenset({("device", "rdmap1s6")})): 1,
        ("node_amazonefa_rdma_read_bytes", ports["rdmap0s6"]): 1234,
        ("node_amazonefa_rdma_read_bytes", ports["rdmap1s6"]): 1234,
        ("node_amazonefa_rx_drops", ports["rdmap0s6"]): 5,
    }


# As DeviceMonitor.cpp prints them: two lines of headings, and cells as wide as the first of these.
ROWS = """
import sys, time
fields = sys.argv[sys.argv.index("-e") + 1].split(",")
cells = {"203": ["97", "3"], "230": ["0", "79"], "155": ["612.125", ""]}
cells |= {"1004": ["0.512", "N/A"], "156": ["9", "12..."]}
while True:
    print(f"{'#Entity':<9}" + "".join(f"{'F' + field:<12}" for field in fields))
    print(f"{'ID':<9}" + "".join(f"{'unit':<12}" for field in fields))
    for gpu in (0, 1):
        row = "".join(f"{cells.get(field, ['N/A', 'N/A'])[gpu]:<12}" for field in fields)
        print(f"{f'GPU {gpu}':<9}" + row, flush=True)
    time.sleep(0.2)
"""


def test_dcgms_rows_are_metrics_by_the_names_and_labels_of_dcgm_exporter(tmp_path: Path) -> None:
    """With a stand-in for dcgmi that prints what its source says, and one for nvidia-smi."""
    (tmp_path / "rows.py").write_text(ROWS)
    (tmp_path / "dcgmi").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/rows.py" "$@"\n')
    listed = "0, GPU-aaaa, NVIDIA H100 80GB HBM3\\n1, GPU-bbbb, NVIDIA H100 80GB HBM3\\n"
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '{listed}'\n")
    for name in ("dcgmi", "nvidia-smi"):
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    # In a process of its own, which dcgmi ends with.
    program = (
        "import exporter, dcgm, sys; dcgm.collect(); print(exporter.exposition(dcgm.collect())); dcgm._monitor.kill()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=EXPORTERS, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = {(name, dict(pairs)["gpu"]): value for (name, pairs), value in samples(done.stdout).items()}
    assert found == {
        ("DCGM_FI_DEV_GPU_UTIL", "0"): 97,
        ("DCGM_FI_DEV_GPU_UTIL", "1"): 3,
        ("DCGM_FI_DEV_XID_ERRORS", "0"): 0,
        ("DCGM_FI_DEV_XID_ERRORS", "1"): 79,
        ("DCGM_FI_DEV_POWER_USAGE", "0"): 612.125,
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0"): 0.512,
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "0"): 9,
    }
    assert 'UUID="GPU-bbbb",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",Hostname=' in done.stdout


def test_columns_that_are_not_those_that_were_asked_for_are_not_taken_for_them() -> None:
    with pytest.raises(ValueError, match="dcgmi dmon has 1 columns instead of"):
        list(dcgm.rows(["#Entity   GPUTL", "GPU 0     97"]))


def test_a_node_of_two_partitions_has_its_processors_once() -> None:
    lines = ["n1|idle|dev|0/8/0/8", "n1|idle|all|0/8/0/8", "n2|drained*|all|0/0/8/8", "n3|mixed-|all|2/6/0/8"]
    found = samples(exporter.exposition(slurm.nodes(lines)))
    assert found["slurm_nodes_total", frozenset()] == 3
    assert found["slurm_cpus_total", frozenset()] == 24
    of = {name: found[f"slurm_nodes_{name}", frozenset({("partition", "all")})] for name in ("idle", "drain", "mix")}
    assert of == {"idle": 1, "drain": 1, "mix": 1}


def test_jobs_that_wait_for_one_of_two_partitions_are_in_both_and_counted_once() -> None:
    lines = ["PENDING|research|dev,all|4", "RUNNING|research|all|8", "RUNNING|guests|all|2"]
    found = samples(exporter.exposition(slurm.jobs(lines)))
    assert found["slurm_jobs_pending", frozenset()] == 1
    assert found["slurm_jobs_running", frozenset()] == 2
    for partition in ("dev", "all"):
        assert found["slurm_partition_jobs_pending", frozenset({("partition", partition)})] == 1
    assert found["slurm_account_cpus_running", frozenset({("account", "research")})] == 8


# Recorded from Slurm 22.05, shortened. Of the first job, the name has the form of other fields.
NAME = "a JOB_GRES=gpu:9 Nodes=n9 CPU_IDs=0 Mem=0 GRES=gpu:9 b|c"
QUEUE = [
    f"RUNNING|research|train|4|1|ada|research|{NAME}",
    "RUNNING|guests|train|1|2|linus|borrowed|one",
    "RUNNING|guests|data|1|3|linus|borrowed|without",
    "PENDING|guests|train|1|4|linus|borrowed|waits",
]
DETAILS = [
    f"JobId=1 JobName={NAME} UserId=ada(2001) Account=research JobState=RUNNING NodeList=n[1-2],n5 "
    "JOB_GRES=gpu:h100:5   Nodes=n[1-2] CPU_IDs=0-1 Mem=0 GRES=gpu:h100:2(IDX:0-1) "
    "Nodes=n5 CPU_IDs=0 Mem=0 GRES=gpu:h100:1(IDX:3) MinCPUsNode=1 Comment= Nodes=n9 CPU_IDs=0 Mem=0 GRES=gpu:9",
    "JobId=2 JobName=one UserId=linus(2003) JOB_GRES=neuron:2   Nodes=n6 CPU_IDs=0 Mem=0 GRES=neuron:2(IDX:0,3) "
    "MinCPUsNode=1",
    "JobId=3 JobName=without UserId=linus(2003) JobState=RUNNING JOB_GRES=(null)   Nodes=n7 CPU_IDs=0 Mem=0 GRES= "
    "MinCPUsNode=1",
    "JobId=4 JobName=waits UserId=linus(2003) JobState=PENDING JOB_GRES=(null) MinCPUsNode=1",
]


def test_the_devices_of_a_job_are_those_of_its_nodes_whatever_its_name_is() -> None:
    names = {"n[1-2]": ["n1", "n2"], "n5": ["n5"], "n6": ["n6"]}
    family = slurm.devices(QUEUE, DETAILS, lambda lists: [names[each] for each in lists])
    found = {(labels["job_id"], labels["node"]): count for labels, count in family[3]}
    assert found == {("1", "n1"): 2, ("1", "n2"): 2, ("1", "n5"): 1, ("2", "n6"): 2}
    first, last = family[3][0][0], family[3][-1][0]
    assert (first["account"], first["user"], first["qos"], first["job_name"]) == ("research", "ada", "research", NAME)
    assert (last["account"], last["user"], last["qos"], last["partition"]) == ("guests", "linus", "borrowed", "train")


def test_the_label_of_a_long_name_is_short() -> None:
    queue = [QUEUE[1].replace("one", "x" * 2000)]
    details = [DETAILS[1].replace("one", "x" * 2000)]
    ((labels, _),) = slurm.devices(queue, details, lambda lists: lists and [["n6"]])[3]
    assert labels["job_name"] == "x" * 100


def test_an_empty_cluster_has_zeros_and_not_nothing() -> None:
    found = samples(exporter.exposition([*slurm.nodes([]), *slurm.jobs([])]))
    assert found["slurm_nodes_total", frozenset()] == found["slurm_jobs_pending", frozenset()] == 0


def test_only_the_standard_library_is_imported() -> None:
    for path in EXPORTERS.glob("*.py"):
        imports = [line.split() for line in path.read_text().splitlines() if line.startswith(("import ", "from "))]
        assert {words[1].partition(".")[0] for words in imports} <= set(sys.stdlib_module_names), path
