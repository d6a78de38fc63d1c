"""Run every step in order, each with a time limit, and stop at the first failure with one line that states the reason.

  SLURM_STARTED_BY                service | script: set by the entry point
  SAGEMAKER_RESOURCE_CONFIG_PATH  set by HyperPod (default /opt/ml/config/resource_config.json)
  NODE_ROOT                       prefix of every path that is written; empty on a node
  STEP_TIMEOUT_SECONDS            limit of every step instead of its own
  LOCK_WAIT_SECONDS               time to wait for another run on this node (default 600)
  FAILURE_PAUSE_SECONDS           wait before a failed run ends, so that its log is collected first (default 60)

The platform's facts are in parameters.json beside this file, written when the scripts were delivered. The record of a
run is in /var/log/provision/provisioning.log, line by line, and in /var/lib/trainway/provisioning.json, by step.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

HERE = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("NODE_ROOT") or "/")
LOG = ROOT / "var/log/provision/provisioning.log"
STATE = ROOT / "var/lib/trainway/provisioning.json"
LOCK = ROOT / "run/trainway/provisioning.lock"
# Default time limit of a step in seconds, and the limits of steps that need another.
LIMIT_SECONDS = 300
LIMITS_SECONDS = {"20-lustre": 420, "22-home": 420, "25-containers": 660, "90-custom": 3600}
# Python does not know its own path if there is no PATH.
PYTHON = sys.executable or "python3"
# Prefix of a step's message about a problem with which the node can work.
WARNING = "WARNING: "
# Variables that cloud-init, a systemd service, or HyperPod's agent may not set.
ENVIRONMENT = {
    "HOME": "/root",
    "NODE_ROOT": "",
    "SLURM_STARTED_BY": "service",
    "SAGEMAKER_RESOURCE_CONFIG_PATH": "/opt/ml/config/resource_config.json",
}
PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class RunError(Exception):
    """The reason for the end of the run, in one line."""


class Told(RunError):
    """Somebody ended the run by a signal."""


@dataclass
class StepOutcome:
    """The outcome of a step: running, done, or failed. `said` is its last line."""

    name: str
    status: str = "running"
    seconds: float = 0.0
    said: str = ""


@dataclass
class Run:
    """A record of a node's last run for support. `version` is a hash of its scripts and parameters."""

    version: str
    started_by: str
    started: str
    status: str = "running"
    finished: str | None = None
    why: str | None = None
    steps: list[StepOutcome] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def version(folder: Path) -> str:
    """Return twelve hexadecimal digits that change with the files below `folder`."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(folder)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:12]


def cannot_write(path: Path, error: OSError) -> str:
    return f"cannot write {path}: {error.strerror}; `df -h; df -i; mount` on this node says what is full or read-only"


class RunLog:
    """Lines to standard output and the node's log. An error of one is reported on the other, and kept."""

    def __init__(self) -> None:
        self.error: str | None = None
        self.file: IO[bytes] | None = None
        try:
            LOG.parent.mkdir(parents=True, exist_ok=True)
            self.file = LOG.open("ab", buffering=0)
        except OSError as error:
            self._broken(error)

    def line(self, line: str) -> None:
        data = f"{line}\n".encode(errors="replace")
        with suppress(OSError):  # Nobody may be reading anymore. The file has the line.
            os.write(1, data)
        try:
            if self.file:
                self.file.write(data)
        except OSError as error:
            self._broken(error)

    def say(self, name: str, text: str) -> None:
        """Write a line of the run's own.

        It begins with the step's name, because CloudWatch's list shows only the beginning.
        """
        self.line(f"[{name}] {now()} {text}")

    def _broken(self, error: OSError) -> None:
        self.file, self.error = None, cannot_write(LOG, error)
        for stream in (1, 2):
            with suppress(OSError):
                os.write(stream, f"[log] {self.error}\n".encode())


def save(run: Run) -> None:
    """Write the state file, completely or not at all. Raises `RunError`."""
    try:
        STATE.parent.mkdir(parents=True, exist_ok=True)
        new = STATE.with_suffix(".new")
        new.write_text(json.dumps(asdict(run), indent=2) + "\n")
        new.replace(STATE)
    except OSError as error:
        raise RunError(cannot_write(STATE, error)) from error


def lock(log: RunLog) -> IO[str]:
    """Return the lock that excludes a second run until it is closed. Raises `RunError`."""
    seconds = float(os.environ.get("LOCK_WAIT_SECONDS", "600"))
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    file = LOCK.open("a+")
    deadline, told = time.monotonic() + seconds, False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "?"
            if time.monotonic() > deadline:
                why = f"process {holder} has been provisioning this node for {seconds:.0f} s"
                raise RunError(f"{why}; `tail {LOG}` says what it does; run this again when it is done") from None
            if not told:
                log.say("lock", f"process {holder} is provisioning this node; waiting for it")
                told = True
            time.sleep(0.5)
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def facts(run: Run, log: RunLog) -> dict[str, str]:
    """Return the environment of the steps, and keep the warnings of node_facts.py. Raises `RunError`."""
    config = os.environ["SAGEMAKER_RESOURCE_CONFIG_PATH"]
    command = [PYTHON, str(HERE / "node_facts.py"), config, str(HERE / "parameters.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stderr.splitlines():
        log.line(f"[facts] {line}")
        if line.startswith(WARNING):
            run.warnings.append(f"facts: {line.removeprefix(WARNING)}")
    if done.returncode:
        raise RunError("this node's place in the cluster is unknown; the line above says why")
    found = dict(line.split("=", 1) for line in shlex.split(done.stdout))
    what = f"{found['NODE_ROLE']} of group {found['NODE_GROUP']} ({found['INSTANCE_TYPE']})"
    log.say("facts", f"{what}, cluster {found['CLUSTER_NAME']}, orchestrator {found['ORCHESTRATOR']}")
    return found


def limit(name: str) -> int:
    return int(os.environ.get("STEP_TIMEOUT_SECONDS") or LIMITS_SECONDS.get(name, LIMIT_SECONDS))


def run_step(path: Path, environment: dict[str, str], run: Run, log: RunLog) -> None:
    """Run one step. Raises `RunError`."""
    step = StepOutcome(path.stem)
    run.steps.append(step)
    save(run)
    log.say(step.name, "start")
    began = time.monotonic()
    command = [PYTHON, str(HERE / "limited.py"), str(limit(step.name)), step.name, "bash", str(path)]
    limited = subprocess.Popen(command, env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert limited.stdout
    try:
        try:
            relay(limited.stdout, step, run, log)
        except Told as signaled:
            limited.terminate()
            relay(limited.stdout, step, run, log)
            raise Told(f"{signaled}, and this step with it") from None
        finally:
            code = limited.wait()
            step.seconds = round(time.monotonic() - began, 1)
        if code == 124 and step.seconds >= limit(step.name):
            raise RunError(f"ran past its limit of {limit(step.name)} seconds")
        if code:
            ended = f"status {code}" if 0 < code <= 128 else f"killed by signal {code - 128 if code > 0 else -code}"
            raise RunError(f"{ended}; {step.said or 'it said nothing'}")
        if log.error:
            raise RunError(log.error)
    except RunError:
        step.status = "failed"
        raise
    step.status = "done"
    log.say(step.name, f"done in {step.seconds} s")


def relay(lines: IO[bytes], step: StepOutcome, run: Run, log: RunLog) -> None:
    """Log a step's output until it has ended."""
    for raw in lines:
        line = raw.decode(errors="replace").rstrip("\n")
        log.line(line)
        step.said = line.removeprefix(f"[{step.name}] ")
        if step.said.startswith(WARNING):
            run.warnings.append(f"{step.name}: {step.said.removeprefix(WARNING)}")


def summary(run: Run) -> str:
    took = sorted(run.steps, key=lambda step: -step.seconds)
    total = sum(step.seconds for step in took)
    longest = ", ".join(f"{step.name} {step.seconds} s" for step in took[:3])
    warned = f"; {len(run.warnings)} warnings, the first: {run.warnings[0]}" if run.warnings else ""
    return f"all {len(took)} steps in {total:.0f} s, of version {run.version}; longest: {longest}{warned}"


def told(number: int, _frame: FrameType | None) -> NoReturn:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Told(f"{signal.Signals(number).name} ended the run")


def guarded(act: Callable[[], None]) -> str | None:
    """Call the function, and return the reason for its failure, or None."""
    try:
        act()
    except RunError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename or 'this node'}: {error.strerror}"
    return None


def every_step(run: Run, log: RunLog) -> None:
    """Run every step. Raises `RunError`."""
    save(run)
    run.facts = facts(run, log)
    environment = {**os.environ, **run.facts}
    for path in sorted((HERE / "steps").glob("[0-9][0-9]-*.sh")):
        run_step(path, environment, run, log)


def provision(run: Run, log: RunLog) -> None:
    """Run every step while no other run does, and record the result. Raises `RunError`."""
    if log.error:
        raise RunError(log.error)
    with lock(log):
        run.why = guarded(lambda: every_step(run, log))
        run.status, run.finished = "failed" if run.why else "done", now()
        unsaved = guarded(lambda: save(run))
        if why := run.why or unsaved:
            raise RunError(why)


def main() -> int:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    given = os.environ.get("PATH", "").split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([*filter(None, given), *(each for each in PATH if each not in given)])
    # Steps read the output of commands, so all commands use one language.
    os.environ["LC_ALL"] = "C.UTF-8"
    os.umask(0o022)
    for number in SIGNALS:
        signal.signal(number, told)
    log = RunLog()
    run = Run(version(HERE), os.environ["SLURM_STARTED_BY"], now())
    why = guarded(lambda: provision(run, log))
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    if not why:
        log.say("finished", summary(run))
        return 0
    log.say(run.steps[-1].name if run.steps else "start", f"FAILED: {why}")
    # Wait as AWS's own scripts do: HyperPod ends the node at once, and a log that was not collected is lost with it.
    # https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/7.sagemaker-hyperpod-eks/LifecycleScripts/base-config/on_create.sh
    time.sleep(float(os.environ.get("FAILURE_PAUSE_SECONDS", "60")))
    return 1


if __name__ == "__main__":
    sys.exit(main())
