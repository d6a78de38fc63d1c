"""On real Slurm: a job waits for another run, keeps away from nodes, and gives a shell and a port of its nodes."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import boto3
import pytest
import yaml

from emulator import running
from tests.launch.slurm.machines import CONTROLLER, Machines, machines, missing
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.ports import free_port
from tests.synthesis import ROOT
from trainway.launch.job_file.programs import CommandFlags, interactive_program, load_program
from trainway.launch.job_file.sweep import Point
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.launch.runs.run_directory import make_run_directory, record_submission
from trainway.launch.slurm import SlurmOptions, state, stop, submit
from trainway.launch.slurm.forward import forward
from trainway.launch.slurm.script import render_script
from trainway.launch.slurm.target import TARGET
from trainway.launch.starting import interactive
from trainway.launch.starting.prepare import Launch
from trainway.launch.target.protocol import Handle, Phase
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
ENVIRONMENT = SlurmOptions(environment=PurePosixPath(sys.prefix))
OVER = (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.GONE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(["n1", "n2"]) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        yield running


@pytest.fixture
def there(cluster: Machines, hand_off: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HandOff:
    """The platform, whose runs are recorded in a directory of the test's own."""
    monkeypatch.chdir(tmp_path)
    return on_slurm(hand_off, mount=str(cluster.shared))


@pytest.fixture
def bucket(there: HandOff, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The platform's bucket, with the records of its runs."""
    with running(region=there.region) as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        where: Any = {"LocationConstraint": there.region}
        boto3.client("s3", region_name=there.region).create_bucket(Bucket="records", CreateBucketConfiguration=where)
        yield "records"


def launch(there: HandOff, run: str, script: str, options: SlurmOptions = ENVIRONMENT, **job: Any) -> Handle:
    """Submit a script as a run, and record it as `trainway launch` does."""
    file = Path(f"{run}.yaml")
    file.write_text(yaml.safe_dump({"name": run, "run": {"script": script, "stop": {"grace": 5}}, **job}))
    program = load_program(file)
    request = Request(program, run, there, IMAGE, allocate(program, there, CATALOGUE))
    make_run_directory(request.job_text, request.directory_here)
    handle = submit(request, CATALOGUE, options)
    record_submission(request.directory_here, "slurm", handle, {}, request.nodes)
    return handle


def relayed(cluster: Machines, handle: Handle) -> int:
    """The number of connections that are forwarded to a run: the steps with a program of the relay."""
    names = cluster.ask("squeue", "--steps", "--noheader", f"--jobs={handle['job']}", "--Format=StepName")
    return names.split().count("python3")


def ends(handle: Handle) -> Phase:
    wait_for("the run ends", lambda: state(handle).phase in OVER)
    return state(handle).phase


def test_a_run_starts_after_another_one_has_succeeded_and_never_otherwise(cluster: Machines, there: HandOff) -> None:
    go = cluster.shared / "go"
    first = launch(there, "first", f"until [[ -e {go} ]]; do sleep 0.2; done; date +%s%N >{cluster.shared}/first-ended")
    after = replace(ENVIRONMENT, after="first")
    second = launch(there, "second", f"cat {cluster.shared}/first-ended >{cluster.shared}/second-saw", after)
    wait_for("the first one runs", lambda: state(first).phase is Phase.RUNNING)
    assert state(second).phase is Phase.QUEUED and "Dependency" in state(second).reason
    go.touch()
    assert ends(second) is Phase.SUCCEEDED
    assert (cluster.shared / "second-saw").read_text() == (cluster.shared / "first-ended").read_text()
    again = launch(there, "late", "true", after)
    assert ends(again) is Phase.SUCCEEDED, "a run that has succeeded needs no dependency"

    # Slurm takes the end of a run that was stopped for a success.
    stopped = launch(there, "stopped", "sleep 600")
    waits = launch(there, "waits", f"touch {cluster.shared}/waits-ran", replace(ENVIRONMENT, after="stopped"))
    wait_for("it runs", lambda: state(stopped).phase is Phase.RUNNING)
    stop(stopped)
    assert ends(stopped) is Phase.STOPPED
    wait_for("the waiting run ends", lambda: state(waits).phase in OVER)
    assert state(waits).phase is Phase.FAILED, state(waits)
    assert state(waits).reason == "failed: stopped, after which the run starts, has the outcome: stopped"

    fail = cluster.shared / "fail"
    fails = launch(there, "fails", f"until [[ -e {fail} ]]; do sleep 0.2; done; exit 3")
    never = launch(there, "never", f"touch {cluster.shared}/never-ran", replace(ENVIRONMENT, after="fails"))
    fail.touch()
    assert ends(fails) is Phase.FAILED
    assert ends(never) is Phase.STOPPED, "Slurm cancels what can never start"
    assert not {"waits-ran", "never-ran"} & {each.name for each in cluster.shared.iterdir()}
    with pytest.raises(UsageError, match=r"(?s)cannot start after fails.*it is failed: .*exit status 3.*resume fails"):
        launch(there, "refused", "true", replace(ENVIRONMENT, after="fails"))


def test_a_run_is_stopped_before_its_script_has_begun(
    cluster: Machines, there: HandOff, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm reports a job as running before its batch script handles signals."""
    begun = cluster.shared / "begun"

    def late(*arguments: Any) -> str:
        """Return the script with a start that takes long."""
        return render_script(*arguments).replace("set -euo pipefail\n", f"touch {begun}\nsleep 5\n", 1)

    monkeypatch.setattr(sys.modules[submit.__module__], "render_script", late)
    handle = launch(there, "hasty", "sleep 600")
    wait_for("the job has begun", begun.exists)
    stop(handle)
    assert ends(handle) is Phase.STOPPED, state(handle)


def test_a_run_of_another_target_cannot_be_waited_for(there: HandOff) -> None:
    make_run_directory("", Path("runs/elsewhere"))
    record_submission(Path("runs/elsewhere"), "kubernetes", {"name": "elsewhere"}, {}, None)
    with pytest.raises(UsageError, match="Slurm knows the jobs of its own cluster only"):
        launch(there, "refused", "true", replace(ENVIRONMENT, after="elsewhere"))


def test_nodes_are_excluded_and_reserved(cluster: Machines, there: HandOff) -> None:
    handle = launch(there, "second-node", "sleep 600", replace(ENVIRONMENT, exclude="n1"))
    wait_for("it runs", lambda: state(handle).phase is Phase.RUNNING)
    assert state(handle).nodes == ("n2",)
    stop(handle)
    reservation = ("reservation", "ReservationName=mine", "StartTime=now", "Duration=60", "Users=root", "Nodes=n1")
    cluster.ask("scontrol", "create", *reservation)
    handle = launch(there, "reserved", "true", replace(ENVIRONMENT, reservation="mine"))
    assert ends(handle) is Phase.SUCCEEDED
    assert "Reservation=mine" in cluster.ask("scontrol", "show", "job", handle["job"])
    cluster.ask("scontrol", "delete", "ReservationName=mine")
    with pytest.raises(UsageError, match=r"(?s)--exclude is 'n1 n2'.*without spaces"):
        launch(there, "refused", "true", replace(ENVIRONMENT, exclude="n1 n2"))


def test_a_port_of_a_node_answers_here_while_the_run_goes_on(cluster: Machines, there: HandOff) -> None:
    (cluster.shared / "page").mkdir()
    content = os.urandom(300_000)
    (cluster.shared / "page/binary").write_bytes(content)
    serve = f"cd {cluster.shared}/page && exec python3 -m http.server --bind 127.0.0.1 6006"
    handle = launch(there, "board", serve)
    wait_for("it runs", lambda: state(handle).phase is Phase.RUNNING)
    local = free_port()
    relay = subprocess.Popen(list(forward(handle, 0, 6006, local)))
    try:
        # Each attempt starts a step, which takes seconds on a busy machine.
        deadline = time.monotonic() + 300
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{local}/binary") as answer:
                received = answer.read()
                if received:
                    break
            assert time.monotonic() < deadline and relay.poll() is None
            time.sleep(0.3)
        assert received == content, "every byte, and in order"
        with socket.create_connection(("127.0.0.1", local)) as second:
            second.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            assert second.recv(100).startswith(b"HTTP/1.0 200")
        with pytest.raises(UsageError, match="it runs on 1 nodes"):
            forward(handle, 1, 6006, local)
        # The server waits for the rest of this request, and would for as long as the job runs.
        wait_for("both are answered", lambda: relayed(cluster, handle) == 0)
        with socket.create_connection(("127.0.0.1", local)) as third:
            third.sendall(b"HEAD")
            wait_for("it has a step", lambda: relayed(cluster, handle) == 1)
            relay.send_signal(signal.SIGTERM)
            assert relay.wait(300) == 0
    finally:
        relay.kill()
        # The next test needs both nodes.
        stop(handle)
    assert ends(handle) is Phase.STOPPED


def test_an_allocation_ends_with_its_shell(
    cluster: Machines, there: HandOff, bucket: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    there = there.model_copy(update={"bucket": bucket})
    program = interactive_program(None, CommandFlags(nodes=2))
    request = Request(program, "interactive-1", there, IMAGE, allocate(program, there, CATALOGUE))
    target = replace(TARGET, prepare=lambda _launch: [request])
    monkeypatch.setattr("trainway.launch.starting.start._check_platform", lambda *_: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    typed, terminal = pty.openpty()
    standard_input = os.dup(0)
    os.dup2(terminal, 0)
    try:
        os.write(typed, b"srun --overlap hostname; exit 7\n")
        status = interactive.open_shell(
            target,
            Launch([Point(program, {})], ROOT / "examples/hyperpod-slurm-p5en.yaml"),
            {"environment": sys.prefix},
        )
    finally:
        os.dup2(standard_input, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
    said = capfd.readouterr()
    assert status == 7 and {"n1", "n2"} <= set(said.out.split()), said
    assert "interactive-1 was told to stop" in said.err
    wait_for("the nodes are free", lambda: len(cluster.idle()) == 2)
    assert CONTROLLER not in said.out.split()
