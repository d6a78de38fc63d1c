"""The node with rank 0 knows the steps of a run. torchrun numbers the nodes by the order of their names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.launch.test_start_program import Started
from tests.ports import free_port

PROGRAM = """
import os, pathlib, time
pathlib.Path(f"rank-0-on-{os.environ['TRAINWAY_NODE_RANK']}" if os.environ["RANK"] == "0" else "other").touch()
for step in range(3) if os.environ["RANK"] == "0" else ():
    print(f"step={step}", flush=True)
    time.sleep(0.1)
"""
# The names by which torchrun sorts the nodes: the second one comes first.
NAMES = ("localhost", "127.0.0.1")


def test_the_steps_are_those_of_the_node_with_rank_0(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    told: dict[str, Any] = {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "1",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"127.0.0.1:{free_port()}",
        "PET_RDZV_ID": "run",
        "TRAINWAY_ATTEMPT": "1",
        "TRAINWAY_NODES": "2",
    }
    nodes = [
        Started(
            tmp_path,
            "--metric=step=step=(\\d+)",
            "--",
            torchrun,
            "train.py",
            **told,
            PET_LOCAL_ADDR=name,
            TRAINWAY_NODE_RANK=str(rank),
        )
        for rank, name in enumerate(NAMES)
    ]
    for node in nodes:
        status, said = node.ends()
        assert status == 0, said
    assert (tmp_path / "rank-0-on-1").exists(), "the first node of the run does not have rank 0"
    lines = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert [line["step"] for line in lines] == [0, 1, 2]
