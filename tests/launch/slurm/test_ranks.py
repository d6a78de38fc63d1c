"""What a job is told reaches its ranks: signals, which are theirs alone so that they have time to save, and code.

With a torchrun that starts one rank, and says what the two of them hear and have.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.launch.slurm.machines import Machines, machines, missing
from tests.launch.slurm.requests import CATALOGUE, on_slurm, request
from tests.launch.slurm.sessions import hyperpod, without_slurm
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.registry.logins import remember_login
from trainway.launch.slurm import SlurmOptions, render_script, shell, state, stop, submit
from trainway.launch.starting.code import pack
from trainway.launch.target.protocol import Handle, Phase, State
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

TORCHRUN = """#!{python}
import os, signal, sys, time
from pathlib import Path

said = Path(os.environ["TRAINWAY_RUN"], "said")
def say(text):
    with said.open("a") as file:
        file.write(text + "\\n")

for name in os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"].split(","):
    signal.signal(signal.Signals[name], lambda number, _: say(f"torchrun heard {{signal.Signals(number).name}}"))
rank = os.fork()
if rank:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]))
def save(number, _):
    time.sleep(1.5)
    say(f"saved on {{signal.Signals(number).name}}")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGUSR1, save)
try:
    import mine
    say(f"with mine, {{mine.WHERE}}")
except ImportError:
    pass
say("training, " + repr({{name: value for name, value in os.environ.items() if name.startswith("AWS_")}}))
time.sleep(3600)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(["n1"], settings={"KillWait": 5}) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        programs = running.shared / "environment" / "bin"
        programs.mkdir(parents=True)
        (programs / "activate").write_text(f'PATH="{programs}:$PATH"\n')
        (programs / "torchrun").write_text(TORCHRUN.format(python=sys.executable))
        # What starts the ranks of the training job is a module.
        elastic = f'[ "$2" = training.elastic ] && exec "{programs}/torchrun" "$@"'
        for name in ("python", "python3"):
            (programs / name).write_text(f'#!/bin/sh\n{elastic}\nexec {sys.executable} "$@"\n')
        for name in ("python", "python3", "torchrun"):
            (programs / name).chmod(0o755)
        yield running


Launch = Callable[..., Handle]
TRAINING = "training, {'AWS_REGION': 'us-west-2'}"


def environment(cluster: Machines) -> PurePosixPath:
    return PurePosixPath(cluster.shared / "environment")


@pytest.fixture
def launch(cluster: Machines, hand_off: HandOff, tmp_path: Path) -> Iterator[Launch]:
    there = on_slurm(hand_off, mount=str(cluster.shared))

    def launch(run: str, code: str | None = None, **more: Any) -> Handle:
        options = SlurmOptions(environment=environment(cluster), **more)
        return submit(replace(request(tmp_path, there, run=run), code=code), CATALOGUE, options)

    yield launch
    cluster.ask("scancel", "--user=root")
    wait_for("the node is idle", lambda: cluster.idle() == ["n1"])


def said(handle: Handle) -> list[str]:
    file = Path(handle["directory"]) / "said"
    return file.read_text().splitlines() if file.exists() else []


def reaches(handle: Handle, phase: Phase, seconds: float = 300.0) -> None:
    wait_for(f"the run is {phase}, not {state(handle)}", lambda: state(handle).phase is phase, seconds)


def test_a_run_that_is_stopped_has_the_time_that_it_needs(cluster: Machines, launch: Launch) -> None:
    handle = launch("stopped")
    wait_for("it trains", lambda: bool(said(handle)))
    assert state(handle).nodes == ("n1",)
    # The record of another run can have the number of this job. A stop begins with Requeue=0.
    stop({**handle, "directory": str(PurePosixPath(handle["directory"]).with_name("another"))})
    assert "Requeue=1" in cluster.ask("scontrol", "show", "job", handle["job"])
    stop(handle)
    reaches(handle, Phase.STOPPED)
    assert said(handle) == [TRAINING, "saved on SIGUSR1"]


# Takes a minute: Slurm enforces time limits twice a minute.
@pytest.mark.exhaustive
def test_a_run_saves_itself_before_its_time_is_over(launch: Launch) -> None:
    # Its last five minutes are all that it has.
    handle = launch("short", time_limit_minutes=1)
    reaches(handle, Phase.STOPPED)
    assert said(handle) == [TRAINING, "saved on SIGUSR1"]


def test_a_run_that_is_preempted_saves_itself_and_goes_on(cluster: Machines, launch: Launch) -> None:
    handle = launch("preempted")
    wait_for("it trains", lambda: bool(said(handle)))
    # What Slurm does to a job whose nodes are wanted back.
    cluster.ask("scontrol", "requeue", handle["job"])
    wait_for("it has gone on", lambda: len(said(handle)) == 3)
    assert said(handle) == [TRAINING, "saved on SIGTERM", TRAINING]
    assert state(handle).phase is Phase.RUNNING


@pytest.mark.usefixtures("empty_account")
def test_a_shell_on_a_node_of_the_run_opens_over_a_session(
    cluster: Machines, launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    remember_login(arn := hyperpod("atlas", "login"), "ada")
    handle = {**launch("open"), "arn": arn}
    wait_for("it trains", lambda: bool(said(handle)))
    monkeypatch.setenv("PATH", str(without_slurm(tmp_path, commands=cluster.commands, user="ada")))
    *command, parameters = shell(handle, 0)
    assert "--document-name=AWS-StartInteractiveCommand" in command
    # The agent gives the line to `sh -c`.
    (line,) = json.loads(parameters)["command"]
    typed = subprocess.run(["/bin/sh", "-c", line], input="hostname\n", capture_output=True, text=True, timeout=300)
    assert "n1" in typed.stdout.split(), typed.stderr
    with pytest.raises(UsageError, match="it runs on 1 nodes"):
        shell(handle, 1)


def test_a_run_that_waits_is_cancelled(launch: Launch) -> None:
    launch("first")
    waiting = launch("second")
    reaches(waiting, Phase.QUEUED)
    stop(waiting)
    reaches(waiting, Phase.STOPPED)
    assert said(waiting) == []


@pytest.mark.usefixtures("launch")
def test_credentials_of_whoever_submits_do_not_come_along(cluster: Machines, hand_off: HandOff, tmp_path: Path) -> None:
    asked = request(tmp_path, on_slurm(hand_off, mount=str(cluster.shared)), run="credentials")
    script = cluster.shared / "script"
    script.write_text(render_script(asked, CATALOGUE, SlurmOptions(environment=environment(cluster))))
    directory = Path(asked.directory)
    (directory / "logs").mkdir(parents=True)
    cluster.ask("env", "AWS_SESSION_TOKEN=ends-soon", "AWS_REGION=elsewhere", "sbatch", str(script))
    said = directory / "said"
    # The file is there before its line.
    wait_for("it trains", lambda: said.exists() and said.read_text().endswith("\n"))
    assert said.read_text() == f"{TRAINING}\n"


def test_synced_code_comes_before_the_environment_s(cluster: Machines, launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "changed").mkdir()
    (tmp_path / "changed" / "mine.py").write_text("WHERE = 'synced'\n")
    content, digest = pack(tmp_path / "changed")
    archive = cluster.shared / f"{digest}.tar.gz"
    archive.write_bytes(content)
    handle = launch("synced", code=str(archive))
    wait_for("it trains", lambda: TRAINING in said(handle))
    assert said(handle) == ["with mine, synced", TRAINING]


def test_a_run_does_not_begin_twice(launch: Launch) -> None:
    first = launch("once")
    wait_for("it trains", lambda: bool(said(first)))
    second = launch("once")
    wait_for("the second waits for the first", lambda: state(second) == State(Phase.QUEUED, "Dependency"))
    stop(first)
    wait_for("the second begins", lambda: len(said(first)) == 3)
    assert said(first) == [TRAINING, "saved on SIGUSR1", TRAINING]
