"""A real Slurm keeps the nodes that a run suspects from the next start of its job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.launch.slurm.machines import Machines, machines
from tests.launch.slurm.requests import CATALOGUE, on_slurm, request
from tests.launch.slurm.test_run import ENVIRONMENT, WHY_NOT, log, saves, write_corpus
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.slurm import SlurmOptions, state, stop, submit
from trainway.launch.target.protocol import Handle, Phase
from trainway.spec.handoff import HandOff

pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""), pytest.mark.exhaustive]
JOB: dict[str, Any] = {"steps": 100_000, "data": {"train": "fsx:/corpus/small", "sequence_length": 64}}
OVER = (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.GONE)
ENOUGH_SECONDS = 300.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(["n1", "n2", "n3", "n4"]) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        write_corpus(running)
        yield running


def launch(name: str, cluster: Machines, hand_off: HandOff, directory: Path, options: SlurmOptions) -> Handle:
    there = on_slurm(hand_off, mount=str(cluster.shared))
    checkpoint = {"every": 5, "location": f"fsx:/checkpoints/{name}"}
    return submit(request(directory, there, run=name, nodes=2, checkpoint=checkpoint, **JOB), CATALOGUE, options)


def wait_until_it_saves(handle: Handle, count: int) -> None:
    run = Path(handle["directory"])
    wait_for("a checkpoint is written", lambda: saves(run) > count or state(handle).phase in OVER, ENOUGH_SECONDS)
    assert state(handle).phase is Phase.RUNNING, log(handle)


def name_twice(run: Path, node: str) -> None:
    from training.hosts.suspect_nodes import attempt_of, suspect

    for port in (4001, 4002):
        suspect(run, node, "fault", "local rank 0 ended by SIGBUS", attempt_of(node, port))


def excluded(cluster: Machines, handle: Handle) -> list[str]:
    words = cluster.ask("scontrol", "--oneliner", "show", "job", handle["job"]).split()
    nodes = next(word.partition("=")[2] for word in words if word.startswith("ExcNodeList="))
    return [] if nodes == "(null)" else sorted(cluster.ask("scontrol", "show", "hostnames", nodes).split())


def requeue(cluster: Machines, handle: Handle) -> None:
    """Requeue a job as Slurm does when it loses a node, and wait until it has saved again."""
    cluster.ask("scontrol", "requeue", handle["job"])
    wait_for("the job waits", lambda: state(handle).phase is Phase.QUEUED, ENOUGH_SECONDS)
    wait_until_it_saves(handle, saves(Path(handle["directory"])))


def end(handle: Handle) -> None:
    stop(handle)
    wait_for("the run ends", lambda: state(handle).phase in OVER, ENOUGH_SECONDS)


def test_a_requeue_excludes_a_suspect_node_besides_those_of_the_launch(
    cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    from training.hosts.suspect_nodes import attempt_of, suspect

    handle = launch("requeued", cluster, hand_off, tmp_path, replace(ENVIRONMENT, exclude="n1"))
    run = Path(handle["directory"])
    wait_until_it_saves(handle, 0)
    assert state(handle).nodes == ("n2", "n3")
    name_twice(run, "n3")
    # Neither a node of another cluster, nor words for a shell, nor one naming keeps the run from its nodes.
    name_twice(run, "ip-10-0-0-1")
    for name in ("n2;true", "$(true)"):
        (run / "suspects" / name).mkdir()
        for number in range(2):
            (run / "suspects" / name / f"{number}-fault.json").write_text("{}")
    suspect(run, "n2", "fault", "local rank 0 ended by SIGBUS", attempt_of("n2", 4001))
    requeue(cluster, handle)
    assert state(handle).nodes == ("n2", "n4")
    assert excluded(cluster, handle) == ["n1", "n3"]
    said = (run / "logs" / "slurm.log").read_text()
    assert "trainway: the job is requeued without n3, which were named twice within a day" in said
    end(handle)


def test_a_job_stays_on_a_suspect_node_where_no_idle_node_can_replace_it(
    cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    handle = launch("alone", cluster, hand_off, tmp_path, replace(ENVIRONMENT, exclude="n3,n4"))
    run = Path(handle["directory"])
    wait_until_it_saves(handle, 0)
    name_twice(run, "n2")
    requeue(cluster, handle)
    assert state(handle).nodes == ("n1", "n2")
    said = (run / "logs" / "slurm.log").read_text()
    assert "trainway: n2 were named twice within a day, and no idle node can replace them" in said
    assert "scontrol update nodename=n2 state=drain" in said
    assert len(list(run.glob("logs/start-*"))) == 2
    end(handle)


def test_a_run_that_is_submitted_again_excludes_its_suspect_nodes(
    cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    name_twice(cluster.shared / "runs" / "again", "n1")
    handle = launch("again", cluster, hand_off, tmp_path, replace(ENVIRONMENT, exclude="n3"))
    assert excluded(cluster, handle) == ["n1", "n3"]
    end(handle)
    # With fewer nodes than the job needs, it would wait for good.
    for node in ("n2", "n4"):
        name_twice(cluster.shared / "runs" / "all", node)
    name_twice(cluster.shared / "runs" / "all", "n1")
    handle = launch("all", cluster, hand_off, tmp_path, ENVIRONMENT)
    assert excluded(cluster, handle) == []
    end(handle)
