"""The starter of a program runs it to its end, stops it as a whole, and knows how it ended."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.job_file.programs import program_of_command
from trainway.launch.node.exit_statuses import NOT_EXECUTABLE, NOT_FOUND, STOPPED
from trainway.launch.node.metrics_in_output import MetricsInOutput
from trainway.launch.node.node_of_run import LAUNCH
from trainway.launch.node.process_tree import children_of
from trainway.launch.node.program_output import MOST_BYTES, ProgramOutput, lines_of
from trainway.launch.node.run_state import NodeState
from trainway.launch.program.program import STARTER

BEGUN = "print('begun', flush=True)\n"
IGNORES = f"import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{BEGUN}time.sleep(3600)\n"
SAVES = f"""
import pathlib, signal, sys, time
def save(number, frame):
    pathlib.Path('heard').open('a').write(signal.Signals(number).name + ' ')
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGUSR1, save)
{BEGUN}time.sleep(3600)
"""


class Started:
    """A program that the starter runs on one node. `directory` is that of the run and of the code.

    `within` is a command that starts the starter, such as unshare.
    """

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        starter: Path = STARTER,
        within: Sequence[str] = (),
        **environment: str,
    ) -> None:
        self.directory, self.is_within = directory, bool(within)
        told = {"TRAINWAY_RUN": str(directory), "TRAINWAY_OUTPUT": str(directory / "outputs")}
        command = [*within, sys.executable, str(starter), *arguments]
        self.process = subprocess.Popen(
            command,
            env={"PATH": os.environ["PATH"], "TRAINWAY_STOPPED_STATUS": str(STOPPED), **told, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # As under a shell that ignores the signals for its children.
            preexec_fn=lambda: [signal.signal(each, signal.SIG_IGN) for each in (signal.SIGUSR1, signal.SIGTERM)],
        )

    def begins(self) -> None:
        """Wait until the program has begun."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "begun" in line:
                return
        raise AssertionError(self.process.communicate())

    def ends(self) -> tuple[int, str]:
        """Return the exit status, and what was written to stderr since the last reading."""
        _, errors = self.process.communicate(timeout=300)
        return self.process.returncode, errors

    def terminate(self) -> None:
        """Send SIGTERM to the starter."""
        pid = self.process.pid
        if self.is_within:
            (pid,) = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        os.kill(pid, signal.SIGTERM)

    def stops(self) -> int:
        """Stop the run by a signal, and return its exit status."""
        self.begins()
        self.terminate()
        return self.ends()[0]

    def record(self, attempt: int = 1, node: int = 0) -> dict[str, Any]:
        """What the starter has written down about an attempt."""
        found: dict[str, Any] = json.loads((self.directory / f"attempts/{attempt}/node-{node}.json").read_text())
        return found


def test_the_files_that_are_sent_are_enough_even_beside_another_trainway(tmp_path: Path) -> None:
    node, other = tmp_path / "node", tmp_path / "other/trainway"
    program = program_of_command(["true"], tmp_path)
    for directory in (node, other):
        directory.mkdir(parents=True)
    for name, text in program.files.items():
        (node / name).write_text(text)
    (other / "__init__.py").write_text("raise ImportError('the package of somebody else')\n")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(other.parent),
        "TRAINWAY_RUN": str(tmp_path),
        "TRAINWAY_OUTPUT": str(tmp_path / "outputs"),
    }
    # Without what pip installed, the checkout among it.
    command = [sys.executable, "-S", str(node / STARTER.name), "--", "true"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_launch_that_cannot_succeed_does_not_run_again_and_the_next_launch_does(tmp_path: Path) -> None:
    node, program = tmp_path / "node", tmp_path / "run/program"
    shutil.copytree(STARTER.parent, node)
    program.parent.mkdir()

    def ends(launch: str, rank: int = 0) -> tuple[int, str]:
        (node / LAUNCH).write_text(launch)
        started = Started(program.parent, "--", "./program", starter=node / STARTER.name, TRAINWAY_NODE_RANK=str(rank))
        return started.ends()

    def writes(script: str) -> None:
        program.write_text(f"#!/bin/sh\necho >> ran\n{script}\n")
        program.chmod(0o755)

    def runs() -> int:
        return len((program.parent / "ran").read_text())

    status, said = ends("first")
    assert status == NOT_FOUND and "./program: there is no such file" in said
    writes("exit 1")
    assert ends("first") == (status, said), "the program is there now, and the outcome of the launch is known"
    assert ends("first", rank=1) == (status, said.replace("node 0", "node 1")), "no node waits for the one that failed"
    assert json.loads((program.parent / "attempts/2/node-0.json").read_text())["outcome"] == "failed"
    assert ends("resumed")[0] == 1 and runs() == 1, "another attempt can help"
    writes("exit 127")
    status, said = ends("resumed")
    assert status == NOT_FOUND and ends("resumed") == (status, said) and runs() == 2
    writes("exit 0")
    assert ends("resumed again") == (0, "") and runs() == 3


def test_a_node_that_fails_when_another_one_succeeds_has_not_failed(tmp_path: Path) -> None:
    """torchrun fails on a spare node when the run ends. The record of an earlier attempt says nothing of this one."""
    assert Started(tmp_path, "--", "true").ends() == (0, "")
    spare = Started(tmp_path, "--late-failure=300", "--", "sh", "-c", "echo begun; exit 1", TRAINWAY_NODE_RANK="1")
    spare.begins()
    wait_for("the program has failed", lambda: not children_of(spare.process.pid))
    assert spare.process.poll() is None
    assert Started(tmp_path, "--", "true").ends() == (0, "")
    assert spare.ends() == (0, "")
    assert spare.record(node=1)["outcome"] == "succeeded" and not (tmp_path / "attempts/1/failure").exists()


def test_a_node_that_fails_alone_says_so_later_and_one_that_is_told_to_stop_is_stopped(tmp_path: Path) -> None:
    words = ("--late-failure=1", "--", "sh", "-c", "echo begun; exit 3")
    assert Started(tmp_path / "fails", *words).ends()[0] == 3
    stopped = Started(tmp_path / "stops", "--late-failure=300", *words[1:])
    stopped.begins()
    wait_for("the program has failed", lambda: not children_of(stopped.process.pid))
    stopped.terminate()
    assert stopped.ends()[0] == STOPPED


FAILS = "import os, sys; open('ran', 'a').write('x'); sys.exit('no memory at 0x%x' % os.getpid())"


def attempts(directory: Path, program: str = FAILS, *options: str, number: int = 3, launch: str = "one") -> list[int]:
    """Start a program so often, as an operator does after each failure, and return the exit statuses."""
    node = directory / "node"
    shutil.copytree(STARTER.parent, node, dirs_exist_ok=True)
    (node / LAUNCH).write_text(launch)
    words = (*options, "--metric=step=step=(\\d+)", "--", "python3", "-c", program)
    return [Started(directory, *words, starter=node / STARTER.name).ends()[0] for _ in range(number)]


def ran(directory: Path) -> int:
    return len((directory / "ran").read_text())


def test_two_attempts_that_fail_in_the_same_way_without_a_step_end_the_launch(tmp_path: Path) -> None:
    assert attempts(tmp_path) == [1, 1, NOT_FOUND] and ran(tmp_path) == 2
    why = (tmp_path / "attempts/3/failure").read_text()
    assert why.startswith("two attempts in a row failed without a new step: ")
    assert attempts(tmp_path, number=1, launch="one") == [NOT_FOUND] and ran(tmp_path) == 2
    assert attempts(tmp_path, number=2, launch="another") == [1, 1] and ran(tmp_path) == 4, "`trainway resume`"


@pytest.mark.parametrize(
    ("program", "options"),
    [
        (f"print('step=1'); {FAILS}", ()),
        (FAILS, ("--always-retry",)),
        (
            "import os; os.write(os.open('ran', os.O_WRONLY | os.O_CREAT | os.O_APPEND), b'x'); "
            "os._exit(1 if os.environ['TRAINWAY_ATTEMPT'] != '2' else 3)",
            (),
        ),
    ],
    ids=["a new step", "the job file says how often", "another exit status"],
)
def test_other_attempts_start_again(program: str, options: tuple[str, ...], tmp_path: Path) -> None:
    assert NOT_FOUND not in attempts(tmp_path, program, *options) and ran(tmp_path) == 3


# Seconds since 1970 by the clock of the other node, which is behind or ahead of the one that failed.
BEHIND, AHEAD = 0, 2**33


@pytest.mark.parametrize("time", [BEHIND, AHEAD])
@pytest.mark.parametrize(
    ("of_another_node", "first_end", "ends_the_launch"),
    [
        ({"outcome": "running"}, "failed", False),
        ({"outcome": "stopped"}, "stopped", False),
        ({"outcome": "failed", "progress": True}, "failed", False),
        ({"outcome": "stopped"}, "failed", True),
    ],
    ids=["lost", "told to stop before the failure", "with a step", "told to stop after the failure"],
)
def test_an_attempt_that_another_node_ended_is_no_failure_of_the_program(
    of_another_node: dict[str, Any], first_end: str, ends_the_launch: bool, time: int, tmp_path: Path
) -> None:
    attempts(tmp_path, number=1)
    record = {"launch": "one", "time": time, "progress": False, **of_another_node}
    (tmp_path / "attempts/1/node-1.json").write_text(json.dumps(record))
    (tmp_path / "attempts/1/first-end").write_text(first_end)
    assert attempts(tmp_path, number=2) == [1, NOT_FOUND if ends_the_launch else 1]


def test_the_first_node_that_ends_says_how(tmp_path: Path) -> None:
    assert Started(tmp_path, *python("raise SystemExit(3)"), TRAINWAY_ATTEMPT="1").ends()[0] == 3
    assert Started(tmp_path, *python("pass"), TRAINWAY_ATTEMPT="1", SLURM_NODEID="1").ends()[0] == 0
    assert Started(tmp_path, *python("pass"), TRAINWAY_ATTEMPT="2").ends()[0] == 0
    assert [(tmp_path / f"attempts/{number}/first-end").read_text() for number in (1, 2)] == ["failed\n", "succeeded\n"]


def test_a_program_that_refuses_its_options_is_not_started_again(tmp_path: Path) -> None:
    program = "import argparse; argparse.ArgumentParser(prog='train.py').parse_args(['--lr', '1'])"
    status, said = Started(tmp_path, *python(program)).ends()
    assert status == NOT_FOUND and "the program refuses its options: unrecognized arguments: --lr 1" in said


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """No process of a test outlives it: each has the test's directory in its environment."""
    yield
    mine = f"TRAINWAY_RUN={tmp_path}".encode()
    wait_for("every process has ended", lambda: not [pid for pid in processes() if mine in environment_of(pid)])


def processes() -> list[str]:
    return [each.name for each in Path("/proc").iterdir() if each.name.isdigit()]


def environment_of(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def python(text: str) -> tuple[str, ...]:
    return ("--", "python3", "-c", text)


def test_a_program_that_ends_is_done(tmp_path: Path) -> None:
    started = Started(tmp_path, *python("import os; print(os.environ['TRAINWAY_ATTEMPT'], os.getcwd())"))
    output, _ = started.process.communicate(timeout=300)
    assert (started.process.returncode, output) == (0, f"1 {tmp_path}\n")
    assert started.record()["outcome"] == "succeeded"
    assert (tmp_path / "outputs").is_dir()
    assert (tmp_path / "logs/start-0/program/attempt_0/0/stdout.log").read_text() == output


def test_a_program_that_ends_with_0_after_the_signal_is_stopped_and_not_done(tmp_path: Path) -> None:
    started = Started(tmp_path, *python(SAVES))
    status = started.stops()
    assert (status, started.record()["outcome"]) == (STOPPED, "stopped")
    # Once, and although the starter's own parent ignored the signal.
    assert (tmp_path / "heard").read_text() == "SIGTERM "


def test_the_signal_is_the_one_that_the_program_wants(tmp_path: Path) -> None:
    assert Started(tmp_path, "--stop-signal=SIGUSR1", *python(SAVES)).stops() == STOPPED
    assert (tmp_path / "heard").read_text() == "SIGUSR1 "


def test_a_program_that_ignores_the_signal_is_killed_after_its_grace(tmp_path: Path) -> None:
    started = Started(tmp_path, "--grace=1", *python(IGNORES), RANK="7")
    status = started.stops()
    reason = started.record()["reason"]
    assert status == STOPPED and reason.startswith("it was killed after 1 seconds, and until then there were "), reason
    assert re.search(r"\bpython[\d.]* \(rank 7, process \d+\b", reason), reason


def test_ranks_in_sessions_of_their_own_do_not_outlive_the_program(tmp_path: Path) -> None:
    ranks = (
        f"import subprocess\nsubprocess.Popen(['setsid', 'python3', '-c', {IGNORES!r}])\nimport time; time.sleep(3600)"
    )
    assert Started(tmp_path, "--grace=2", *python(ranks)).stops() == STOPPED
    daemons = Started(tmp_path, *python("import subprocess; subprocess.Popen(['setsid', 'sleep', '3600'])"))
    assert daemons.ends()[0] == 0


def test_a_script_hands_the_signal_to_its_program_and_ends(tmp_path: Path) -> None:
    (tmp_path / "saves.py").write_text(SAVES)
    script = "python3 saves.py | tee said\necho after >>said"
    started = Started(tmp_path, "--script", "--", script)
    wait_for("it begins", lambda: (tmp_path / "said").exists() and "begun" in (tmp_path / "said").read_text())
    started.process.terminate()
    assert started.ends()[0] == STOPPED
    assert (tmp_path / "heard").read_text() == "SIGTERM "
    assert "after" not in (tmp_path / "said").read_text()


def test_a_file_stops_the_run_where_signals_reach_everybody(tmp_path: Path) -> None:
    started = Started(tmp_path, *python(SAVES), SLURM_STEP_ID="0")
    started.begins()
    (tmp_path / "stop").touch()
    assert started.ends()[0] == STOPPED
    assert (tmp_path / "heard").read_text() == "SIGTERM "


def test_under_slurm_a_signal_that_everybody_hears_is_not_sent_again(tmp_path: Path) -> None:
    started = Started(tmp_path, "--grace=1", *python(SAVES), SLURM_STEP_ID="0")
    assert started.stops() == STOPPED
    assert not (tmp_path / "heard").exists()


@pytest.mark.parametrize(
    ("command", "status", "why"),
    [
        (("absent", "train.py"), NOT_FOUND, "absent: there is no such command on PATH"),
        (("./absent",), NOT_FOUND, "./absent: there is no such file in"),
        (("./plain",), NOT_EXECUTABLE, "./plain: the file in"),
        (("./nonsense",), NOT_EXECUTABLE, "./nonsense cannot start: [Errno 8] Exec format error"),
        (("python3", "-u", "trian.py", "--x"), NOT_FOUND, "trian.py: there is no such file in"),
        (("torchrun", "--standalone", "trian.py"), NOT_FOUND, "trian.py: there is no such file in"),
        (("python3", "-c", "raise SystemExit(3)"), 3, "python3 ended with exit status 3"),
        (("python3", "-c", "import os; os.kill(os.getpid(), 9)"), 137, "python3 ended with exit status 137"),
    ],
)
def test_a_failure_is_one_sentence(command: tuple[str, ...], status: int, why: str, tmp_path: Path) -> None:
    for name in ("plain", "nonsense"):
        (tmp_path / name).write_text("nonsense")
    (tmp_path / "nonsense").chmod(0o755)
    started = Started(tmp_path, "--", *command)
    found, errors = started.ends()
    assert found == status
    assert f"trainway: failed on node 0: {why}" in errors and "Traceback" not in errors
    assert (tmp_path / "attempts/1/failure").read_text().startswith(why)


def test_attempts_are_counted_unless_the_run_does(tmp_path: Path) -> None:
    for _ in range(2):
        Started(tmp_path, *python("")).ends()
    Started(tmp_path, *python(""), TRAINWAY_ATTEMPT="7").ends()
    assert sorted(each.name for each in (tmp_path / "attempts").glob("[0-9]*")) == ["1", "2", "7"]


def test_metrics_are_read_from_progress_bars_and_colors(tmp_path: Path) -> None:
    text = r"""
print('\x1b[32mstep: 1\x1b[0m  loss: \x1b[33m2.5\x1b[0m')
print('10%|# | 2/20\r20%|## | step: 3 loss: 1.5', flush=True)
print('step: 3 loss: 1.5, says another rank')
print('loss: nothing')
print('step: 4')
print('loss: 1.25')
"""
    metrics = ("--metric=step=step: (\\d+)", "--metric=loss=loss: ([\\d.]+)")
    Started(tmp_path, *metrics, *python(text)).ends()
    events = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(event["event"], event["step"], event["loss"]) for event in events] == [
        ("metrics", 1, 2.5),
        ("metrics", 3, 1.5),
        ("metrics", 4, 1.25),
    ]
    (tmp_path / "metrics.jsonl").unlink()
    Started(tmp_path, *metrics, *python(text), SLURM_NODEID="1").ends()
    assert not (tmp_path / "metrics.jsonl").exists(), "one node is enough"


def test_a_progress_bar_is_shown_while_it_runs_and_is_short_in_the_log(tmp_path: Path) -> None:
    bar = """
import sys, time
print('begun', flush=True)
for n in range(2000):
    sys.stdout.write(f'\\r{n}/2000 step={n}'); sys.stdout.flush()
    time.sleep(0.001)
sys.stdout.write('\\rdone\\r\\n')
"""
    started = Started(tmp_path, "--metric=step=step=(\\d+)", *python(bar))
    output, _ = started.process.communicate(timeout=300)
    lines = (tmp_path / "logs/start-0/program/attempt_0/0/stdout.log").read_text().split("\n")
    assert output.split("\n") == lines and lines[0] == "begun" and lines[-2:] == ["done", ""]
    assert 3 < len(lines) < 200 and "\r" not in output
    assert (tmp_path / "metrics.jsonl").exists()


def test_a_line_without_an_end_does_not_fill_the_memory_and_hides_its_secrets(tmp_path: Path) -> None:
    secret = "s3cr3t-of-the-hub"
    endless = """
import os, sys
for _ in range(4000):
    sys.stdout.write('x' * 10_007 + os.environ['HUB'])
with open(f'/proc/{os.getppid()}/status') as status:
    sys.stderr.write(next(line for line in status if line.startswith('VmHWM')))
"""
    output = ProgramOutput(MetricsInOutput(tmp_path, [], NodeState(1, 0.0, leads=False)), [secret])
    (tmp_path / "endless").write_bytes(("x" * 10_007 + secret).encode() * 40)
    with (tmp_path / "endless").open("rb") as source:
        read = list(lines_of(source, output))
    assert max(map(len, read)) <= MOST_BYTES + 10 and len(read) > 4
    joined = b"".join(each.rstrip(b"\n") for each in read)
    assert joined.count(b"***") == 40 and secret.encode()[:8] not in joined
    _, errors = Started(tmp_path, "--metric=step=step (\\d+)", *python(endless), HUB="none").process.communicate(
        timeout=300
    )
    (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", errors)
    assert int(peak) < 100_000, "40 MB without an end"


def test_torchrun_has_the_time_and_the_signals(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "torchrun"
    fake.write_text("#!/bin/sh\nenv\n")
    fake.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    started = Started(tmp_path, "--grace=100", "--", "torchrun", "-m", "x", PATH=path, SLURM_NTASKS="2")
    output, _ = started.process.communicate(timeout=300)
    told = dict(line.partition("=")[::2] for line in output.splitlines())
    assert told["PET_SHUTDOWN_TIMEOUT"] == told["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "95"
    assert "SIGUSR1" in told["PET_SIGNALS_TO_HANDLE"].split(",")
    assert "SLURM_NTASKS" not in told


def test_checkpoints_that_a_trainer_did_not_finish_are_set_aside(tmp_path: Path) -> None:
    files = {
        "checkpoint-10": ("training_args.bin", "trainer_state.json"),
        "checkpoint-20": ("training_args.bin",),
        "checkpoint-30": ("checkpoint-is-incomplete.txt",),
        "checkpoint-of-another-program": ("weights.pt",),
    }
    for directory, names in files.items():
        for name in names:
            (tmp_path / "outputs" / directory).mkdir(parents=True, exist_ok=True)
            (tmp_path / "outputs" / directory / name).touch()
    other = Started(tmp_path, "--", "true", TRAINWAY_NODE_RANK="1")
    assert "is incomplete" not in other.ends()[1], "the first node alone renames"
    started = Started(tmp_path, "--", "true")
    status, said = started.ends()
    left = {each.name for each in (tmp_path / "outputs").iterdir()}
    assert status == 0 and said.count("is incomplete, and is now incomplete-checkpoint-") == 2
    assert left == {"checkpoint-10", "incomplete-checkpoint-20", "incomplete-checkpoint-30", *list(files)[3:]}


def test_lines_are_passed_on_at_once(tmp_path: Path) -> None:
    code = "print('begun'); import time; time.sleep(3600)"
    started = Started(tmp_path, "--grace=1", "--", sys.executable, "-c", code)
    started.begins()
    started.process.terminate()
    assert started.ends()[0] == STOPPED
