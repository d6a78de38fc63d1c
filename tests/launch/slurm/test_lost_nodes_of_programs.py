"""Cut the power of nodes of a real Slurm cluster. A program continues on a spare node, or on fewer nodes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.launch.foreign import write_foreign_job
from tests.launch.slurm.machines import Machines, machines, missing
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.job_file.programs import load_program
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.launch.slurm import SlurmOptions, state, submit
from trainway.launch.target.protocol import Handle, Phase
from trainway.spec.handoff import HandOff

WHY_NOT = missing()
pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""), pytest.mark.exhaustive]
OVER = (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.GONE)
ENOUGH_SECONDS = 300.0
STEPS = 60
# It counts steps, and ends with an error if another rank is silent for five seconds between two steps. A rank that
# starts later than the others on a busy machine is no error. Each rank writes the node that it runs on.
PROGRAM = """\
import datetime, os, pathlib, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
state = pathlib.Path(os.environ["TRAINWAY_OUTPUT"]) / "step"
state.with_name(f"rank-{dist.get_rank()}").write_text(os.environ["SLURMD_NODENAME"])
dist.barrier()
impatient = dist.new_group(timeout=datetime.timedelta(seconds=5))
step = int(state.read_text()) if state.exists() else 0
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} ranks begin after step {step}", flush=True)
while step < int(os.environ["STEPS"]):
    step += 1
    ranks = torch.ones(1)
    dist.all_reduce(ranks, group=impatient)
    if dist.get_rank() == 0:
        unfinished = state.with_suffix(".new")
        unfinished.write_text(str(step))
        unfinished.replace(state)
        print(f"step={step} loss={ranks.item() / step:.4f}", flush=True)
    time.sleep(0.2)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines([f"n{number}" for number in range(1, 6)]) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        yield running


def launch(cluster: Machines, hand_off: HandOff, directory: Path, run: str, **options: Any) -> Handle:
    """Submit the program on two nodes, and wait until it trains."""
    file = write_foreign_job(directory, nodes=2, steps=STEPS, program=PROGRAM, outputs="fsx:/outputs", elastic=True)
    file.write_text(f"{file.read_text()}life_cycle: {{process_restarts: 3}}\n")
    program = load_program(file)
    there = on_slurm(hand_off, mount=str(cluster.shared))
    code = cluster.shared / "code"
    shutil.copytree(directory / "code", code, dirs_exist_ok=True)
    request = Request(program, run, there, IMAGE, allocate(program, there, CATALOGUE), str(code))
    handle = submit(request, CATALOGUE, SlurmOptions(environment=PurePosixPath(sys.prefix), **options))
    saved = cluster.shared / "outputs" / run / "step"
    wait_for("it trains", lambda: saved.exists() or state(handle).phase in OVER, ENOUGH_SECONDS)
    assert state(handle).phase is Phase.RUNNING, log(handle)
    return handle


def log(handle: Handle) -> str:
    return (Path(handle["directory"]) / "logs" / "slurm.log").read_text()[-6000:]


def finished(handle: Handle) -> list[str]:
    """Wait until the run has succeeded without a requeue of its job, and return when its ranks began."""
    wait_for("the run ends", lambda: state(handle).phase in OVER, ENOUGH_SECONDS)
    assert state(handle).phase is Phase.SUCCEEDED, log(handle)
    run = Path(handle["directory"])
    assert (run / "attempt").read_text().strip() == "1", "Slurm has not requeued the job"
    assert not (run / "attempts/1/failure").exists(), "no node says that the run failed"
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps[-1] == STEPS
    return begins(run)


def begins(run: Path) -> list[str]:
    """Return the distinct lines of the logs that say after which step ranks began."""
    logs = (file.read_text().splitlines() for file in sorted((run / "logs").rglob("*.log")))
    return sorted({line.partition("]:")[2] or line for lines in logs for line in lines if "ranks begin after" in line})


def test_a_spare_node_takes_the_place_of_a_lost_one(cluster: Machines, hand_off: HandOff, tmp_path: Path) -> None:
    handle = launch(cluster, hand_off, tmp_path, "spare", spare_nodes=1)
    run = Path(handle["directory"])
    # The batch script and the rendezvous are on the first node, which can be the one without ranks.
    first = state(handle).nodes[0]
    with_ranks = {path.read_text() for path in (cluster.shared / "outputs" / "spare").glob("rank-*")}
    begun_before = begins(run)
    cluster.cut_power(max(with_ranks - {first}))
    begun = finished(handle)
    assert len(begun) > len(begun_before) and all(line.startswith("2 ranks begin after step ") for line in begun)


def test_a_program_continues_on_fewer_nodes(cluster: Machines, hand_off: HandOff, tmp_path: Path) -> None:
    handle = launch(cluster, hand_off, tmp_path, "fewer", min_nodes=1)
    cluster.cut_power(state(handle).nodes[-1])
    begun = finished(handle)
    assert {line[0] for line in begun} == {"1", "2"}
