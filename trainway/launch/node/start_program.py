"""The first process of a node whose job file has a section `run`: it starts the program, and decides how it ended.

    python3 start_program.py [--stop-signal SIGTERM] [--grace SECONDS] [--metric NAME=REGEX]… [--code WHERE] -- COMMAND

The launcher sends this file to the node beside the job file. It requires Python 3.9 and nothing else.

The exit status alone cannot tell a program that was stopped from one that is done or has failed: torchrun ends with 1
after a signal whatever its ranks return, and with 0 if its ranks end with 0. So this process remembers that the program
was asked to stop. It signals the process that the user started, once, and never a single rank. It then waits for the
grace, and kills what is left.

A run is asked to stop by a signal to this process, or by the file `stop` in the run's directory. The second serves
Slurm, which sends signals to all processes of a step.
"""

import argparse
import contextlib
import ctypes
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_LOOKS_AT_FILES = 1.0
SECONDS_BETWEEN_LOOKS_AT_METRICS = 5.0
SHORTEST_MASKED = 8
STOPPED, NOT_EXECUTABLE, NOT_FOUND = 75, 126, 127
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
# Python ignores SIGPIPE and SIGXFSZ, and whoever starts this process can ignore others. A program inherits that.
_DEFAULTS = (*_STOPS, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ)
_SET_CHILD_SUBREAPER = 36  # prctl(2)
# What NodeOfRun.environment adds for programs, and mpirun passes on to its ranks.
_TOLD_BY_STARTER = (
    "PET_SHUTDOWN_TIMEOUT",
    "PET_SIGNALS_TO_HANDLE",
    "TORCHELASTIC_SIGNALS_TO_HANDLE",
    "TRAINWAY_ATTEMPT",
    "TRAINWAY_HEAD",
)
# A shell that is signalled ends at once, and leaves its programs alone. With a trap, bash waits for the program that it
# runs, and then ends with the status of the signal.
_TRAPS = "".join(f"trap 'exit {128 + number}' {number.name[3:]}\n" for number in _STOPS)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What torchrun puts before a line of a rank.
_RANK = re.compile(r"^(?:\[default\d+\]:|\[rank\d+\]:)")


class CannotStart(Exception):
    """The program cannot start. Trying again cannot help."""

    def __init__(self, reason: str, status: int = NOT_FOUND) -> None:
        super().__init__(reason)
        self.status = status


def main() -> int:
    """Run the program of one node to its end, and return the exit status of the node."""
    parser = argparse.ArgumentParser(description="Start the program of a run on a node.")
    parser.add_argument("--stop-signal", default="SIGTERM", metavar="NAME", help="signal that asks the program to stop")
    parser.add_argument("--grace", type=float, default=120, metavar="SECONDS", help="time from that signal to the end")
    parser.add_argument("--metric", action="append", default=[], metavar="NAME=REGEX", help="a number in the output")
    parser.add_argument("--metric-files", metavar="PATTERN", help="files below the outputs with numbers")
    parser.add_argument("--code", metavar="WHERE", help="directory to start in, or an archive of `trainway sync`")
    parser.add_argument(
        "--secret", action="append", default=[], metavar="NAME=SECRET", help="a variable and its secret"
    )
    parser.add_argument("--packages", metavar="FILE", help="lock of Python packages that come before those of Python")
    parser.add_argument("--script", action="store_true", help="the command is a script for bash")
    parser.add_argument("--rank", action="store_true", help="this process is one of the ranks that mpirun starts")
    parser.add_argument("command", nargs="+", help="the program, after --")
    asked = parser.parse_args()
    if asked.rank:
        return run_rank(asked)
    if asked.script:
        asked.command = ["bash", "-c", _TRAPS + asked.command[0]]
    run = Path(os.environ["TRAINWAY_RUN"])
    node = NodeOfRun(run)
    stop = StopRequest(run, signal.Signals[asked.stop_signal])
    try:
        environment = with_packages(asked.packages, node.environment(asked.grace), stop)
        check_inputs(environment)
        directory = code_directory(asked.code, run, environment, stop)
        if node.rank == 0:
            set_incomplete_aside(environment["TRAINWAY_OUTPUT"])
        check_command(asked.command, directory, environment)
        if "--rank" in asked.command:
            of_rank = asked.command[asked.command.index("--rank") :]
            check_command(of_rank[of_rank.index("--") + 1 :], directory, environment)
        secrets = read_secrets(asked.secret, environment, stop)
        metrics = MetricsInOutput(run, asked.metric, node.rank == 0)
        if asked.metric_files is not None and node.rank == 0:
            metrics.read_files(Path(environment["TRAINWAY_OUTPUT"]), asked.metric_files)
        output = ProgramOutput(metrics, list(secrets.values()))
        ended = run_program(asked, {**environment, **secrets}, directory, stop, output)
    except CannotStart as problem:
        return node.ended(str(problem), problem.status)
    except StoppedBefore:
        return node.ended("", stopped_status(), stopped="the program had not begun")
    except OSError as problem:
        # For example a script without `#!` in its first line.
        return node.ended(f"{asked.command[0]} cannot start: {problem}", NOT_EXECUTABLE)
    status, killed = ended
    if stop.asked_at is not None:
        how = f"it was killed after {asked.grace:g} seconds" if killed else f"the program's exit status is {status}"
        return node.ended("", stopped_status(), stopped=how)
    if status == 0 and not output.causes.denies_success():
        return node.ended("", 0)
    cause, is_for_good = output.cause(time.time() - node.started)
    why = f"{asked.command[0]} ended with exit status {status}"
    return node.ended(f"{cause} ({why})" if cause else why, NOT_FOUND if is_for_good else status or 1)


class StoppedBefore(Exception):
    """The run was asked to stop before the program began."""


def stopped_status() -> int:
    """Return the exit status of a node whose program was asked to stop."""
    return int(os.environ.get("TRAINWAY_STOPPED_STATUS", "0"))


class NodeOfRun:
    """The node of a run on which this process is, and the attempt, which is the number of the start from 1."""

    def __init__(self, run: Path) -> None:
        self.run = run
        names = ("TRAINWAY_NODE_RANK", "SLURM_NODEID", "JOB_COMPLETION_INDEX", "PET_NODE_RANK")
        told = (os.environ.get(name) for name in names)
        # Pods of a PyTorchJob and of a HyperPodPyTorchJob have no index but that of their name.
        of_worker = re.search(r"-(\d+)$", os.environ.get("POD_NAME", ""))
        self.rank = int(next((each for each in told if each), of_worker.group(1) if of_worker else "0"))
        self.attempt = int(os.environ.get("TRAINWAY_ATTEMPT") or self._count())
        self.started = time.time()
        self._record("running")

    def environment(self, grace: float) -> "dict[str, str]":
        """Return the environment of the program. Create the directory of its outputs."""
        told = dict(os.environ)
        logs = told.get("PET_LOG_DIR", str(self.run / "logs"))
        if "start-" not in logs:
            logs = f"{logs}/start-{self.attempt - 1}"
        for directory in (logs, told["TRAINWAY_OUTPUT"]):
            if "://" not in directory:
                Path(directory).mkdir(parents=True, exist_ok=True)
        # mpirun ends with an error if one of the variables that it is to pass on is not set.
        passed_on = [name for name in told.get("TRAINWAY_MPI_VARIABLES", "").split(";") if name in told]
        ranks_end = f"{max(1.0, grace - 5 if grace > 20 else grace / 2):g}"
        return {
            **told,
            **({"OMPI_MCA_mca_base_env_list": ";".join(passed_on + list(_TOLD_BY_STARTER))} if passed_on else {}),
            # torchrun passes the lines of its ranks on in blocks of 8 KiB otherwise. The training image sets it, too.
            "PYTHONUNBUFFERED": told.get("PYTHONUNBUFFERED", "1"),
            "PET_LOG_DIR": logs,
            "TRAINWAY_ATTEMPT": str(self.attempt),
            "TRAINWAY_NODE_RANK": str(self.rank),
            "TRAINWAY_HEAD": told.get("PET_RDZV_ENDPOINT", "localhost").rpartition(":")[0] or "localhost",
            # torchrun kills its ranks 30 seconds after a signal unless it is told otherwise, and knows SIGUSR1 only if
            # it is told: torch/distributed/run.py and elastic/multiprocessing/api.py of PyTorch 2.13. 2.11 reads the
            # second name of each.
            "PET_SHUTDOWN_TIMEOUT": ranks_end,
            "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": ranks_end,
            "PET_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2",
            "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2",
        }

    def ended(self, failure: str, status: int, stopped: str = "") -> int:
        """Record how the program ended on this node, print a failure or a stop, and return the exit status."""
        outcome = "failed" if failure else "stopped" if stopped else "succeeded"
        self._record(outcome, failure or stopped, failure)
        if failure or stopped:
            print(f"trainway: {outcome} on node {self.rank}: {failure or stopped}", file=sys.stderr, flush=True)
        return status

    def _record(self, outcome: str, reason: str = "", failure: str = "") -> None:
        record = {"attempt": self.attempt, "node_rank": self.rank, "outcome": outcome, "reason": reason}
        times = {"started": self.started, "time": time.time()}
        directory = self.run / "attempts" / str(self.attempt)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"node-{self.rank}.json").write_text(json.dumps({**record, **times}) + "\n")
            if failure:
                # The first node that fails says why the run failed.
                with (directory / "failure").open("x") as file:
                    file.write(f"{failure}\n")
        except OSError as problem:
            if not isinstance(problem, FileExistsError):
                print(f"trainway: {problem}", file=sys.stderr, flush=True)

    def _count(self) -> int:
        counter = self.run / "attempts" / f"of-node-{self.rank}"
        counter.parent.mkdir(parents=True, exist_ok=True)
        number = int(counter.read_text()) + 1 if counter.exists() else 1
        counter.write_text(str(number))
        return number


class StopRequest:
    """Whether the run was asked to stop, and when. Takes the signals from its making on."""

    def __init__(self, run: Path, number: "signal.Signals") -> None:
        self.asked_at: float | None = None
        self.signal = number
        # Slurm signals all processes of a step, so the program has the signal already.
        self._everybody_hears = "SLURM_STEP_ID" in os.environ
        self._heard: int | None = None
        self._file = run / "stop"
        self._next_look = 0.0
        for each in _STOPS:
            signal.signal(each, self._hear)

    def _hear(self, number: int, _frame: object) -> None:
        if self._heard is None:
            self._heard = number

    def look(self) -> bool:
        """Return whether the program has to be signalled now. That is so once."""
        if self.asked_at is not None:
            return False
        by_file = False
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS_AT_FILES
            by_file = self._file.exists()
        if not by_file and self._heard is None:
            return False
        self.asked_at = time.time()
        return by_file or not (self._everybody_hears and self._heard == self.signal)


class RankSignals:
    """The signals that a rank of mpirun gets: SIGUSR1 or SIGUSR2 asks it to stop, and any other one ends it."""

    def __init__(self) -> None:
        self.asked_at: float | None = None
        self._heard: list[int] = []
        for each in _STOPS:
            signal.signal(each, lambda number, _frame: self._heard.append(number))

    @property
    def ends(self) -> bool:
        """Whether mpirun has given up."""
        return any(number not in (signal.SIGUSR1, signal.SIGUSR2) for number in self._heard)

    def look(self) -> bool:
        """Return whether the program has to be signalled now. That is so once."""
        if self.asked_at is not None or not self._heard:
            return False
        self.asked_at = time.time()
        return True


class MetricsInOutput:
    """The numbers in the output of the first node, as events in metrics.jsonl of the run."""

    def __init__(self, run: Path, definitions: "list[str]", first: bool) -> None:
        pairs = [each.partition("=")[::2] for each in definitions] if first else []
        self._patterns = {name: re.compile(pattern) for name, pattern in pairs}
        self._file = run / "metrics.jsonl"
        self._values: dict[str, float] = {}
        self._written_step: float | None = None
        self._lock = threading.Lock()
        self._files: Any = None
        self._next_look = 0.0

    def read(self, line: str) -> None:
        """Take the numbers of a line. A carriage return ends a line too, as progress bars write it."""
        if not self._patterns:
            return
        for part in _ESCAPES.sub("", line).split("\r"):
            found = {name: match for name, pattern in self._patterns.items() if (match := pattern.search(part))}
            values = {name: value for name, match in found.items() if (value := _number(match.group(1))) is not None}
            if values:
                with self._lock:
                    self._take(values)

    def read_files(self, directory: Path, pattern: str) -> None:
        """Read the files below a directory from now on, whenever `look` is called."""
        self._files = beside("program_metrics").MetricFiles(directory, pattern)

    def look(self, *, at_once: bool = False) -> None:
        """Write the events of what was written into the files, at most every SECONDS_BETWEEN_LOOKS_AT_METRICS."""
        if self._files is None or not (at_once or time.monotonic() >= self._next_look):
            return
        self._next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS_AT_METRICS
        for values in self._files.new():
            self._append(values)

    def close(self) -> None:
        """Write the last events."""
        self.look(at_once=True)
        with self._lock:
            self._write()

    def _take(self, values: "dict[str, float]") -> None:
        if "step" in self._patterns and "step" in values and values["step"] != self._values.get("step"):
            self._write()
            self._values = {}
        self._values.update(values)
        if set(self._values) == set(self._patterns) or "step" not in self._patterns:
            self._write()

    def _write(self) -> None:
        values, step = self._values, self._values.get("step")
        # Several ranks may print one step.
        if not values or (step is not None and step == self._written_step):
            return
        self._written_step = step
        if "step" not in self._patterns:
            self._values = {}
        self._append(values)

    def _append(self, values: "dict[str, float]") -> None:
        try:
            with self._file.open("a") as file:
                file.write(json.dumps({"event": "metrics", "time": time.time(), **values}) + "\n")
        except OSError as problem:
            print(f"trainway: {problem}", file=sys.stderr, flush=True)
            self._patterns = {}


def beside(name: str) -> Any:
    """Return the module in a file beside this one, which is in no package on a node."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class ProgramOutput:
    """What is done with the lines that the program writes: numbers are read, and values of secrets are not passed on.

    torchrun writes the files of its ranks itself, so a rank that prints a secret has it in its own file.
    """

    def __init__(self, metrics: MetricsInOutput, secrets: "list[str]") -> None:
        self.metrics = metrics
        self._causes = beside("failure_causes")
        self.causes = self._causes.Causes()
        self._killed_before = self._causes.processes_killed_for_memory()
        # A short value, such as a user name, is part of many words.
        self._secrets = [value.encode() for value in secrets if len(value) >= SHORTEST_MASKED]

    def cause(self, seconds: float) -> "tuple[str, bool]":
        """Return why the program failed after some seconds, if it is known, and whether that is for good."""
        killed = self._causes.processes_killed_for_memory() > self._killed_before
        found: tuple[str, bool] = self.causes.sentence(seconds, killed)
        return found

    def without_secrets(self, line: bytes) -> bytes:
        """Return a line with asterisks in place of the secrets."""
        for value in self._secrets:
            line = line.replace(value, b"***")
        return line


def said_by(helper: str, words: "list[str]", environment: "dict[str, str]", stop: "StopRequest | RankSignals") -> str:
    """Return what a file beside this one prints. Raise CannotStart with what it printed, and StoppedBefore."""
    # A group of its own, so that what it starts ends with it.
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(helper)), *words],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=_begin,
    )
    assert process.stdout is not None
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(process.stdout.read()), daemon=True)  # type: ignore[union-attr]
    reader.start()
    while process.poll() is None:
        stop.look()
        if stop.asked_at is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise StoppedBefore
        time.sleep(SECONDS_BETWEEN_LOOKS)
    reader.join()
    text = "".join(said).strip()
    if process.returncode:
        raise CannotStart(text or f"{helper} ended with status {process.returncode}", process.returncode)
    return text


def code_directory(where: "str | None", run: Path, environment: "dict[str, str]", stop: StopRequest) -> Path:
    """Return the directory in which the program starts: the code's, or the run's without code.

    The code of an archive is named by its SHA-256. Raises CannotStart, and StoppedBefore.
    """
    if where is None or not where.endswith(".tar.gz"):
        return Path(where or run)
    digest = where.rpartition("/")[2][: -len(".tar.gz")]
    content = archive_content(where, environment, stop)
    if hashlib.sha256(content).hexdigest() != digest:
        raise CannotStart(f"the code at {where} has another SHA-256 than its name: launch again")
    private_code = beside("private_code")
    try:
        code: Path = private_code.unpack(content, digest, Path(f"/tmp/trainway-code-{os.geteuid()}"))
    except private_code.UnsafeCodeDirectory as problem:
        raise CannotStart(str(problem)) from None
    except OSError as problem:
        raise CannotStart(f"the code at {where} cannot be unpacked: {problem}", 1) from None
    return code


def archive_content(where: str, environment: "dict[str, str]", stop: StopRequest) -> bytes:
    """Return the content of an archive in S3 or on a file system. Raises CannotStart, and StoppedBefore."""
    if not where.startswith("s3://"):
        return Path(where).read_bytes()
    with tempfile.TemporaryDirectory() as fetched:
        archive = Path(fetched) / "archive"
        said_by("aws_on_node.py", ["object", where, str(archive)], environment, stop)
        return archive.read_bytes()


def set_incomplete_aside(outputs: str) -> None:
    """Rename checkpoints that the Trainer of Hugging Face did not finish, because it would load them and fail.

    It takes the checkpoint of the highest step, looks neither for the file that marks an incomplete one nor for the
    state that it writes last, and so every later start fails: transformers/trainer.py and trainer_jit_checkpoint.py of
    5.23. Its directories are known by a step in the name, and by its arguments, which it saves with each model. A
    directory that it had only begun has none, so those of an earlier checkpoint beside it count, too.
    """
    if "://" in outputs:
        return
    is_trainers = any(Path(outputs).glob("checkpoint-*/training_args.bin"))
    for checkpoint in sorted(Path(outputs).glob("checkpoint-*")):
        marked = (checkpoint / "checkpoint-is-incomplete.txt").exists()
        of_a_step = checkpoint.name.removeprefix("checkpoint-").isdecimal()
        if marked or (is_trainers and of_a_step and not (checkpoint / "trainer_state.json").exists()):
            aside = checkpoint.with_name(f"incomplete-{checkpoint.name}")
            shutil.rmtree(aside, ignore_errors=True)
            checkpoint.rename(aside)
            print(f"trainway: {checkpoint} is incomplete, and is now {aside.name}", file=sys.stderr, flush=True)


def with_packages(
    lock: "str | None", environment: "dict[str, str]", stop: "StopRequest | RankSignals"
) -> "dict[str, str]":
    """Return the environment with the packages of a lock before those of Python. Install them if they are absent.

    Raises CannotStart with the reason, and StoppedBefore.
    """
    if lock is None:
        return environment
    directories = (("--shared", "TRAINWAY_PACKAGES"), ("--here", "TRAINWAY_PACKAGES_HERE"))
    options = [f"{option}={environment[name]}" for option, name in directories if name in environment]
    found = said_by("install_packages.py", [lock, *options], environment, stop)
    before = {"PATH": f"{found}/bin", "PYTHONPATH": found}
    return {
        **environment,
        **{name: os.pathsep.join(filter(None, (first, environment.get(name)))) for name, first in before.items()},
    }


def read_secrets(
    asked: "list[str]", environment: "dict[str, str]", stop: "StopRequest | RankSignals"
) -> "dict[str, str]":
    """Return the values of secrets by their variables. Raises CannotStart with the reason, and StoppedBefore."""
    if not asked:
        return {}
    values: dict[str, str] = json.loads(said_by("aws_on_node.py", ["secrets", *asked], environment, stop))
    return values


def check_inputs(environment: "dict[str, str]") -> None:
    """Raise CannotStart for an input that is a path, and does not exist."""
    for name, location in sorted(environment.items()):
        if name.startswith("TRAINWAY_INPUT_") and location.startswith("/") and not Path(location).exists():
            which = name[len("TRAINWAY_INPUT_") :].lower()
            raise CannotStart(f"the input {which} is absent: there is no {location} on the node")


def check_command(command: "list[str]", directory: Path, environment: "dict[str, str]") -> None:
    """Raise CannotStart for a program that does not exist, and for a Python file that does not."""
    program = command[0]
    if "/" in program:
        found = directory / program
        if not found.exists():
            raise CannotStart(f"{program}: there is no such file in {directory}")
        if not os.access(found, os.X_OK):
            raise CannotStart(f"{program}: the file in {directory} is not executable", NOT_EXECUTABLE)
    elif shutil.which(program, path=environment.get("PATH")) is None:
        raise CannotStart(f"{program}: there is no such command on PATH")
    if not directory.is_dir():
        raise CannotStart(f"{directory}: there is no such directory")
    if missing := missing_python_file(command, directory):
        raise CannotStart(f"{missing}: there is no such file in {directory}")


def missing_python_file(command: "list[str]", directory: Path) -> "str | None":
    """Return the Python file that a command of torchrun, HyperPod's agent, or Python names, if it does not exist."""
    if not re.fullmatch(r"torchrun|hyperpodrun|python[0-9.]*", Path(command[0]).name):
        return None
    for word in command[1:]:
        if word in ("-m", "-c", "--module", "--no-python"):
            return None
        if word.endswith(".py"):
            return None if (directory / word).exists() else word
    return None


def run_program(
    asked: argparse.Namespace,
    environment: "dict[str, str]",
    directory: Path,
    stop: StopRequest,
    output: ProgramOutput,
) -> "tuple[int, bool]":
    """Run the program to its end, and return its exit status and whether it was killed after the grace."""
    _adopt_orphans()
    if Path(asked.command[0]).name == "torchrun":
        # Libraries that find Slurm's variables start their ranks by them, and torchrun has started the ranks already.
        environment = {name: value for name, value in environment.items() if not name.startswith("SLURM_")}
    process = subprocess.Popen(
        asked.command,
        cwd=str(directory),
        env={**environment, "PWD": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_begin,
    )
    logs = Path(environment["PET_LOG_DIR"]) / "program" / "attempt_0" / "0"
    readers = [
        threading.Thread(target=_pass_on, args=(source, sink, logs / f"{name}.log", output), daemon=True)
        for source, sink, name in (
            (process.stdout, sys.stdout.buffer, "stdout"),
            (process.stderr, sys.stderr.buffer, "stderr"),
        )
    ]
    for reader in readers:
        reader.start()
    killed, end = False, None
    while (status := _reaped(process.pid)) is None:
        if stop.look():
            _signal(process.pid, stop.signal, with_children=asked.script)
        if stop.asked_at is not None and end is None:
            end = time.monotonic() + asked.grace
        if end is not None and time.monotonic() >= end:
            killed = True
            _kill_descendants()
        output.metrics.look()
        time.sleep(SECONDS_BETWEEN_LOOKS)
    # What was asked in the last moment counts: a signal to all processes may end the program before this one looks.
    stop.look()
    _kill_descendants()
    for reader in readers:
        reader.join(timeout=5)
    output.metrics.close()
    return (128 - status if status < 0 else status), killed


def run_rank(asked: argparse.Namespace) -> int:
    """Run the program of a rank that mpirun starts, and return its exit status, or 0 if it was asked to stop.

    mpirun passes SIGUSR1 on to all ranks, for a stop, and then waits for them. The program gets the signal of its job
    file instead. When a rank ends with another status than 0, mpirun kills the others, which may be saving. So a rank
    that was asked to stop ends with 0. mpirun sends SIGTERM when it gives up, and kills soon after.
    """
    told = RankSignals()
    _adopt_orphans()
    try:
        environment = with_packages(asked.packages, rank_environment(os.environ), told)
        environment |= read_secrets(asked.secret, environment, told)
        process = subprocess.Popen(asked.command, env=environment, preexec_fn=_begin)
    except StoppedBefore:
        return 0
    except CannotStart as problem:
        print(f"trainway: {problem}", file=sys.stderr, flush=True)
        return problem.status
    except OSError as problem:
        print(f"trainway: {asked.command[0]} cannot start: {problem}", file=sys.stderr, flush=True)
        return NOT_FOUND if isinstance(problem, FileNotFoundError) else NOT_EXECUTABLE
    while (status := _reaped(process.pid)) is None:
        if told.ends:
            _kill_descendants()
        elif told.look():
            _signal(process.pid, signal.Signals[asked.stop_signal], with_children=False)
        time.sleep(SECONDS_BETWEEN_LOOKS)
    _kill_descendants()
    if told.asked_at is not None:
        return 0
    return 128 - status if status < 0 else status


def rank_environment(told: "Mapping[str, str]") -> "dict[str, str]":
    """Return the environment of a rank: mpirun's, and the variables by which PyTorch's `env://` finds the others.

    https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html (read 2026-11-23) has the names of Open MPI.
    """
    rank, on_node = told["OMPI_COMM_WORLD_RANK"], told["OMPI_COMM_WORLD_LOCAL_SIZE"]
    return {
        "RANK": rank,
        "WORLD_SIZE": told["OMPI_COMM_WORLD_SIZE"],
        "LOCAL_RANK": told["OMPI_COMM_WORLD_LOCAL_RANK"],
        "LOCAL_WORLD_SIZE": on_node,
        "MASTER_ADDR": told.get("TRAINWAY_HEAD", "localhost"),
        "MASTER_PORT": told.get("PET_RDZV_ENDPOINT", "").rpartition(":")[2] or "29500",
        **told,
        "TRAINWAY_NODE_RANK": str(int(rank) // int(on_node)),
    }


def _signal(pid: int, number: "signal.Signals", *, with_children: bool) -> None:
    """Signal the program. A script's programs are signalled with it, except `tee`, whose end would break a pipe."""
    children = [each for each, parent in _parents().items() if parent == pid and _name(each) != "tee"]
    for each in (pid, *(children if with_children else ())):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, number)


def _begin() -> None:
    """Give the program a process group of its own, and the default action for every signal."""
    os.setpgid(0, 0)
    for number in _DEFAULTS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _pass_on(source: "object", sink: "object", log: Path, output: ProgramOutput) -> None:
    """Pass on what the program writes, and keep lines that are of no rank of torchrun, which keeps those itself."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        for line in map(output.without_secrets, source):  # type: ignore[call-overload]
            sink.write(line)  # type: ignore[attr-defined]
            sink.flush()  # type: ignore[attr-defined]
            text = line.decode(errors="replace").rstrip("\n")
            if not _RANK.match(text):
                file.write(line)
                file.flush()
            output.causes.read(text)
            output.metrics.read(text)


def _adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that none can outlive this process unseen."""
    try:
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        print("trainway: orphans of the program cannot be adopted on this system", file=sys.stderr)


def _reaped(pid: int) -> "int | None":
    """Return how the process `pid` ended, negative for a signal, or None while it runs. Reap adopted processes."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 1
        if ended == 0:
            return None
        if ended == pid:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def _kill_descendants() -> None:
    """Kill every process that the program started, until there is none."""
    for _ in range(50):
        found = _descendants()
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if found == _zombies(found):
            return
        time.sleep(0.1)


def _descendants() -> "set[int]":
    parents, found = _parents(), {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def _parents() -> "dict[int, int]":
    """Return the parent of every process of this machine."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {pid: int(fields[1]) for pid in pids if (fields := _stat(pid))}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _zombies(pids: "set[int]") -> "set[int]":
    return {pid for pid in pids if not (fields := _stat(pid)) or fields[0] == "Z"}


def _stat(pid: int) -> "list[str]":
    """Return the fields of /proc/PID/stat from the state on. The command before them may have spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _number(text: str) -> "float | None":
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else value


if __name__ == "__main__":
    sys.exit(main())
