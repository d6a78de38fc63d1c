"""A program that hangs is ended with its stacks, and one that works in silence is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.launch.test_start_program import Started
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.node import signs_of_work, silence
from trainway.launch.node.exit_statuses import HUNG, STOPPED
from trainway.launch.node.process_tree import seconds_of_processor
from trainway.launch.node.run_state import NodeState
from trainway.launch.node.signs_of_work import SignsOfWork
from trainway.launch.node.silence import Silence

METRIC = "--metric=step=step=(\\d+)"
STEPS = "import os, sys, threading, time\nfor step in range(4):\n    print(f'step={step}', flush=True)\n"
HANGS = f"{STEPS}\ndef stuck():\n    threading.Event().wait()\nstuck()\n"


def ended(
    directory: Path, program: str, *options: str, command: tuple[str, ...] = (), **environment: Any
) -> tuple[int, str]:
    """Run a program that may be silent for two seconds, and return its exit status and what it wrote to stderr."""
    (directory / "train.py").write_text(program)
    words = command or (sys.executable, "train.py")
    return Started(directory, "--hang=2", METRIC, *options, "--", *words, **environment).ends()


def test_a_program_that_hangs_is_ended_with_its_stacks(tmp_path: Path) -> None:
    status, said = ended(tmp_path, HANGS)
    assert status == HUNG
    assert "the program hangs: for " in said and "printed nothing, taken no step, and done no work" in said
    assert "in stuck" in said, "the function in which it waits"
    assert (tmp_path / "attempts/1/failure").read_text().startswith("the program hangs: ")


@pytest.mark.exhaustive
def test_each_rank_of_torchrun_says_where_it_is(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, threading, time\n"
        "def waits(): threading.Event().wait()\n"
        "def computes(): threading.Event().wait()\n"
        "if os.environ['RANK'] != '0':\n    pathlib.Path('begun').touch()\n    computes()\n"
        "while not pathlib.Path('begun').exists(): time.sleep(0.1)\n"
        "for step in (1, 2):\n    print(f'step={step}', flush=True)\nwaits()\n"
    )
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    status, _ = ended(
        tmp_path,
        program,
        command=(torchrun, "--standalone", "--nproc-per-node=2", "--max-restarts=3", "train.py"),
        PET_TEE="3",
        PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin",
    )
    assert status == HUNG
    logs = "".join(path.read_text() for path in (tmp_path / "logs").rglob("*.log"))
    assert logs.count("Fatal Python error: Aborted") >= 2 and "in waits" in logs and "in computes" in logs
    assert logs.count("step=1") < 4, "torchrun has not started the ranks again"


def test_a_node_whose_program_prints_nothing_hears_of_the_hang_from_the_first(tmp_path: Path) -> None:
    # The program stands for the first node, which writes the file.
    program = (
        "import pathlib, threading\ndef stuck(): threading.Event().wait()\n"
        "pathlib.Path('attempts/1/hang').write_text('the program hangs: for 30 minutes\\nand more')\nstuck()\n"
    )
    status, said = ended(tmp_path, program, TRAINWAY_NODE_RANK="1")
    assert status == HUNG and "in stuck" in said
    assert "failed on node 1: the program hangs: for 30 minutes\n" in said


# A process does something at each line that it reads, and then answers. The processor time is a second.
WORKS = {
    "the processor": "end = time.process_time() + 1\n    while time.process_time() < end: pass",
    "files": "open('data', 'wb').write(bytes(4_000_000))",
    "a mapped file": "memory[:] = bytes(len(memory))",
    "nothing": "pass",
}


class Clock:
    """The clock of a module, which only the test moves."""

    def __init__(self, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.mark.parametrize("how", WORKS)
def test_what_a_silent_program_does_is_a_sign_of_work(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(signs_of_work, monkeypatch)
    monkeypatch.setenv("PATH", "")  # a node without GPUs
    program = (
        "import mmap, sys, time\nfile = open('mapped', 'w+b')\nfile.truncate(8_000_000)\n"
        "memory = mmap.mmap(file.fileno(), 0)\nprint(flush=True)\n"
        f"for _ in sys.stdin:\n    {WORKS[how]}\n    print(flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        signs = SignsOfWork()
        signs.look()
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        clock.now += 5
        assert signs.look() is (how != "nothing")
        clock.now += 5
        assert not signs.look(), "it works no more"
        process.stdin.close()


@pytest.mark.parametrize(
    ("device", "received", "sent", "works"),
    [
        ("eth0", 6_000_000, 0, True),
        ("eth0", 0, 6_000_000, True),
        ("eth0", 900_000, 0, False),
        ("lo", 9**9, 9**9, False),
    ],
    ids=["a download", "an upload", "agents of the node", "processes of the node"],
)
def test_a_program_works_if_the_node_sends_or_receives(
    device: str, received: int, sent: int, works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that downloads by recv() into its memory uses no file, and its processor is no sign beside GPUs."""
    clock, network = Clock(signs_of_work, monkeypatch), tmp_path / "dev"
    monkeypatch.setattr(signs_of_work, "_NETWORK", network)
    monkeypatch.setenv("PATH", "")  # a node without GPUs

    def write(received: int, sent: int) -> None:
        # With the columns of proc_pid_net(5).
        lines = ("Inter-|", " face |bytes", f"  {device}: {received}{' 0' * 7} {sent}{' 0' * 7}")
        network.write_text("".join(f"{line}\n" for line in lines))

    write(10**12, 10**12)
    signs = SignsOfWork()
    signs.look()
    write(10**12 + received, 10**12 + sent)
    clock.now += 5
    assert signs.look() is works
    clock.now += 5
    assert not signs.look()


LOST = "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error"


@pytest.mark.parametrize(
    ("said", "works"),
    [
        ("0\n0", False),
        ("2", False),
        ("0\n37", True),
        ("[N/A]", True),
        (LOST, False),
        (f"0\n{LOST}", False),
        ("Failed to initialize NVML: Unknown Error", True),
    ],
    ids=["idle", "nearly idle", "one works", "unknown", "lost", "one lost", "no answer of the driver"],
)
def test_a_gpu_works_if_its_memory_is_used(
    said: str, works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia0").touch()
    assert _answered(said, tmp_path, monkeypatch).look() is works


@pytest.mark.parametrize(
    ("device", "said"),
    [("nvidia0", "No devices were found"), ("null", "NVIDIA-SMI has failed because of the driver")],
    ids=["no access", "no driver"],
)
def test_a_processor_is_a_sign_of_work_where_nvidia_smi_finds_no_gpu(
    device: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image for GPUs also runs on nodes without any."""
    (tmp_path / device).touch()
    clock = Clock(signs_of_work, monkeypatch)
    signs = _answered(said, tmp_path, monkeypatch)
    assert not signs.look(), "nothing runs below this process"
    with subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) as spins:
        wait_for("a second of the processor", lambda: seconds_of_processor(spins.pid) > 1)
        clock.now += 5
        assert signs.look()
        spins.kill()


def _answered(said: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> SignsOfWork:
    """Return signs of work for which nvidia-smi has said something."""
    monkeypatch.setattr(signs_of_work, "_DEVICES", directory)
    _gpus(directory, f"echo '{said}'", monkeypatch)
    signs = SignsOfWork()
    assert not signs.look(), "it has asked"
    assert signs._gpus is not None
    signs._gpus.wait()
    return signs


def test_a_processor_is_no_sign_of_work_beside_gpus_and_a_driver_may_give_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that waits in a collective keeps its processor. A driver can be stuck with a GPU."""
    clock = Clock(signs_of_work, monkeypatch)
    _gpus(tmp_path, "echo >> asked; exec sleep 3600", monkeypatch)
    spins = subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"])
    signs = SignsOfWork()
    try:
        signs.look()
        wait_for("the question", (tmp_path / "asked").exists)
        before = seconds_of_processor(spins.pid)
        wait_for("a second of the processor", lambda: seconds_of_processor(spins.pid) > before + 1)
        clock.now += 5
        assert not signs.look() and not signs.look()
    finally:
        for process in (spins, signs._gpus):
            if process is not None:
                process.kill()
                process.communicate()
    assert (tmp_path / "asked").read_text() == "\n", "one question at a time"


def _gpus(directory: Path, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program in the place of nvidia-smi. This machine has no GPU."""
    (directory / "nvidia-smi").write_text(f"#!/bin/sh\ncd {directory}\n{answer}\n")
    (directory / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")


def test_a_program_that_says_no_step_is_named_and_not_ended(tmp_path: Path) -> None:
    program = "import time\nprint('begun', flush=True)\ntime.sleep(3600)\n"
    (tmp_path / "train.py").write_text(program)
    started = Started(tmp_path, "--hang=1", METRIC, "--", sys.executable, "train.py")
    assert started.process.stdout is not None
    for line in started.process.stdout:
        if "Its steps have no pace yet, and it is not ended: python" in line:
            break
    started.terminate()
    assert started.ends()[0] == STOPPED


def test_a_stop_does_not_wait_for_a_driver_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _gpus(tmp_path, "trap '' TERM\necho >> asked\nwhile :; do sleep 1; done", monkeypatch)
    (tmp_path / "train.py").write_text("import time\ntime.sleep(3600)\n")
    started = Started(tmp_path, "--hang=2", "--grace=5", METRIC, "--", sys.executable, "train.py")
    wait_for("the question", (tmp_path / "asked").exists)
    started.terminate()
    assert started.ends()[0] == STOPPED
    assert started.record()["reason"] == "the program's exit status is 143", "nothing was killed after the grace"


def test_the_driver_of_a_ray_job_waits_for_ranks_that_are_not_below_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{STEPS}print('begun', flush=True)\nthreading.Event().wait()\n")
    job = '{"metadata": {"job_submission_id": "llama"}}'
    started = Started(tmp_path, "--hang=1", METRIC, "--", sys.executable, "train.py", RAY_JOB_CONFIG_JSON_ENV_VAR=job)
    started.begins()
    with pytest.raises(subprocess.TimeoutExpired):
        started.process.wait(timeout=5)
    started.terminate()
    assert started.ends() == (STOPPED, "trainway: stopped on node 0: the program's exit status is 143\n")


class Fixed(SignsOfWork):
    """Signs of work that a test chooses."""

    def __init__(self, *, works: bool) -> None:
        super().__init__()
        self.works = works

    def look(self) -> bool:
        return self.works


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Callable[[Silence, int], int | None]:
    """Return a function that lets seconds pass, and says after how many of them the program hangs."""
    clock = Clock(silence, monkeypatch)

    def wait(watched: Silence, seconds: int) -> int | None:
        for second in range(seconds):
            clock.now += 1
            if watched.look():
                return second + 1
        return None

    return wait


@pytest.fixture
def state() -> NodeState:
    """Return the state of a run that has taken a step."""
    state = NodeState(1, 0.0, leads=True)
    for step in (1, 2):
        state.take({"step": step})
    return state


def quiet(state: NodeState, directory: Path, *, works: bool = False, least: float = 600) -> Silence:
    """Return the silence of a program that has just said something."""
    found = Silence(least, state, directory / "hang", signs=lambda: Fixed(works=works))
    found.hear()
    return found


Wait = Callable[[Silence, int], int | None]


def test_a_program_hangs_after_its_least_time(state: NodeState, waits: Wait, tmp_path: Path) -> None:
    assert waits(quiet(state, tmp_path), 700) == 600
    assert (tmp_path / "hang").read_text().startswith("the program hangs: for 10 minutes it has printed nothing")


def test_a_program_that_works_does_not_hang(state: NodeState, waits: Wait, tmp_path: Path) -> None:
    assert waits(quiet(state, tmp_path, works=True), 10_000) is None


def test_a_program_that_shall_not_be_watched_does_not_hang(state: NodeState, waits: Wait, tmp_path: Path) -> None:
    assert waits(quiet(state, tmp_path, least=0), 10_000) is None


def test_a_silence_that_ended_by_itself_lengthens_the_limit(state: NodeState, waits: Wait, tmp_path: Path) -> None:
    watched = quiet(state, tmp_path)
    assert waits(watched, 590) is None
    watched.hear()
    assert waits(watched, 5000) == 3 * 590


def test_twenty_steps_may_pass(state: NodeState, waits: Wait, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeState, "step_seconds", 100.0)
    assert waits(quiet(state, tmp_path), 5000) == 2000


def test_a_time_in_which_the_whole_node_was_stopped_does_not_count(
    state: NodeState, waits: Wait, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example by `scontrol suspend`."""
    watched = quiet(state, tmp_path)
    assert waits(watched, 500) is None
    Clock(silence, monkeypatch).now = 1500 + 3600
    assert watched.look() is None
