"""On real Slurm, a stop reaches the ranks of two nodes behind launchers and shell scripts, and they are resumed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
import yaml

from tests.launch.launch_wrappers import OF_PACKAGES, REAL, WRAPPERS, ranks_of, write_files
from tests.launch.programs import packages
from tests.launch.slurm.machines import Machines, machines, missing
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.representatives import with_representatives
from trainway.launch.job_file.programs import load_program
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.launch.slurm import SlurmOptions, state, stop, submit
from trainway.launch.target.protocol import Handle, Phase
from trainway.spec.handoff import HandOff

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
ENVIRONMENT = SlurmOptions(environment=PurePosixPath(sys.prefix))
# A launch on two nodes refuses deepspeed, unless a file starts it that is not on this machine. Lightning's own launcher
# starts ranks on one node only.
CASES = {
    name: words
    for name, words in {**WRAPPERS, **{name: ("--", *words) for name, words in REAL.items()}}.items()
    if name != "deepspeed"
} | {name: words for name, (_, words) in OF_PACKAGES.items() if words[1] == "bash" and "Lightning" not in name}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(["n1", "n2"], settings={"KillWait": 5}) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        yield running


@pytest.mark.parametrize("wrapper", with_representatives(CASES, ["a launcher in a bash FILE"]))
def test_every_rank_of_two_nodes_saves_at_a_stop_and_is_resumed(
    wrapper: str, cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    if wrapper in OF_PACKAGES and (why := packages.missing()):
        pytest.skip(why)
    code = cluster.shared / "code" / str(list(CASES).index(wrapper))
    code.mkdir(parents=True)
    write_files(code)
    run = f"wrapper-{code.name}"
    first = launch(wrapper, run, code, cluster, hand_off, tmp_path)
    ranks = [f"{node}-{rank}" for node in range(2) for rank in range(ranks_of(wrapper))]
    wait_for(f"every rank is up {log(first)}", lambda: len(list(code.glob("up-*"))) == len(ranks))
    stop(first)
    wait_for("the run ends", lambda: state(first).phase in (Phase.STOPPED, Phase.SUCCEEDED, Phase.FAILED))
    assert state(first).phase is Phase.STOPPED, log(first)
    assert {each.name: each.read_text() for each in code.glob("heard-*")} == {
        f"heard-{rank}": "SIGTERM " for rank in ranks
    }
    assert sorted(each.name for each in code.glob("saved-*")) == [f"saved-{rank}" for rank in ranks]

    again = launch(wrapper, run, code, cluster, hand_off, tmp_path)
    wait_for("it is resumed", lambda: state(again).phase in (Phase.STOPPED, Phase.SUCCEEDED, Phase.FAILED))
    assert state(again).phase is Phase.SUCCEEDED, log(again)
    assert sorted(each.name for each in code.glob("resumed-*")) == [f"resumed-{rank}" for rank in ranks]


def launch(wrapper: str, run: str, code: Path, cluster: Machines, hand_off: HandOff, directory: Path) -> Handle:
    """Submit the program on two nodes, which share its code."""
    words = CASES[wrapper]
    is_script = words[0] == "--script"
    program = {"script": words[-1]} if is_script else {"command": list(words[1:])}
    environment = {"OMP_NUM_THREADS": "1"}
    if wrapper in OF_PACKAGES:
        needed = packages.installed(OF_PACKAGES[wrapper][0])
        path = f"{needed}/bin:{Path(sys.executable).parent}:/usr/bin:/bin"
        environment |= {"PATH": path, "PYTHONPATH": str(needed), "DS_ACCELERATOR": "cpu"}
    section = {**program, "outputs": "fsx:/outputs", "environment": environment, "stop": {"grace": 60}}
    file = directory / "job.yaml"
    file.write_text(yaml.safe_dump({"name": "wrapped", "nodes": 2, "run": section}))
    loaded, there = load_program(file), on_slurm(hand_off, mount=str(cluster.shared))
    return submit(
        Request(loaded, run, there, IMAGE, allocate(loaded, there, CATALOGUE), str(code)), CATALOGUE, ENVIRONMENT
    )


def log(handle: Handle) -> str:
    file = Path(handle["directory"]) / "logs" / "slurm.log"
    return file.read_text()[-3000:] if file.exists() else ""
