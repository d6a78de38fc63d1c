"""Measure the time from a fault to the end of the next step, and compare it with two peers.

    python -m benchmarks.recovery [--ranks N] [--rounds R]

Each turn starts a run under torchrun, plants a fault at a random moment, and waits for the first step after the
restart. The figure is the time from the fault to the end of that step. A random rank is killed or stopped, or a host
with a rank is lost while a spare host waits (see lost_host.py). The hosts are namespaces, which only root can make.
Without root, the benchmark skips the lost host and prints a message. The programs take turns (see turns.py):

- `trainway` is the training job as every target starts it, with its watchdog and its own agent.
- `torchrun` is a loop with snapshots that is written by hand (bare_restarted.py). Only the timeout of its collectives
  notices a hang. The timeout is as long as the training job lets a step take.
- `ft_launcher` is the launcher of NVIDIA's Resiliency Extension, and runs the same loop. The benchmark installs it into
  a temporary directory. Its timeout for a heartbeat is as long as the training job lets a step take.

All three programs run with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1. Without this variable, restarted ranks can wait for
the addresses of ranks that have ended, and then fail (pytorch/pytorch#135712).

`parts` divides the time of the training job: until torchrun has started its processes again and Python has imported
them, until the job is ready for a step, and until the end of the step.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import yaml

from benchmarks.goodput import ranks_of
from benchmarks.lost_host import HOSTS_THAT_TRAIN, training_hosts
from benchmarks.record import arguments, record
from benchmarks.turns import Spread, ratios, take_turns
from training.data.corpus import python_standard_library
from training.prepare import prepare
from trainway.launch.program.rank_launchers import ELASTIC, many_nodes

HANG_SECONDS = 3
"""Seconds that a step may take before the program counts it as hung."""
STEPS_BEFORE, MOMENT_SECONDS, LONGEST = 5, 0.5, 120.0
# The latest release with a wheel for Python 3.11 and Debian 12, and its dependencies that the project does not have.
FT_LAUNCHER = ("nvidia-resiliency-ext==0.4.1", "defusedxml==0.7.1", "nvidia-ml-py==13.615.71", "pynvml==13.0.1")
# ft_launcher's timeout for the first heartbeat of a rank, and the interval of its checks.
FIRST_HEARTBEAT_SECONDS, LOOK_SECONDS = 60, 0.5
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
PEER = "ft_launcher"
Start: TypeAlias = Callable[[Path, Path, int, list[str]], tuple[list[str], dict[str, str]]]
"""A function that returns the command and the environment variables of a program.

Its arguments are the directory of the benchmark, the directory of the run, the number of ranks, and the rendezvous
options of torchrun.
"""
PARTS = ("until imported", "until ready", "first step")


def main() -> None:
    """Measure all programs after all faults, and write the result."""
    parser = arguments("recovery", __doc__)
    parser.add_argument("--ranks", type=int, default=2, help="ranks on this machine. Default: 2")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each program and fault. Default: 5")
    chosen = parser.parse_args()
    drawn = random.Random(0)
    figures: dict[str, Any] = {"ranks": chosen.ranks, "hang_seconds": HANG_SECONDS}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        install = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            f"--target={root / PEER}",
            *FT_LAUNCHER,
        ]
        subprocess.run(install, check=True)
        prepare(python_standard_library(limit_bytes=300_000), str(root / "corpus"), vocabulary=384)
        starts: dict[str, Start] = {"trainway": trainway, "torchrun": bare, "ft_launcher": monitored}
        faults: dict[str, Callable[[Start], list[float]]] = {
            "kill": lambda start: recovery(start, root, chosen.ranks, signal.SIGKILL, drawn),
            "hang": lambda start: recovery(start, root, chosen.ranks, signal.SIGSTOP, drawn),
        }
        if os.geteuid():
            print("the lost host is skipped: network namespaces require root", file=sys.stderr, flush=True)
        else:
            faults["lost_host"] = lambda start: recovery_of_host(start, root, drawn)
        for fault, recover in faults.items():
            turns = take_turns({name: partial(recover, start) for name, start in starts.items()}, chosen.rounds)
            totals = {name: [sum(parts) for parts in each] for name, each in turns.items()}
            figures[fault] = {
                "seconds": {name: Spread.of(each).document() for name, each in totals.items()},
                **{
                    f"trainway_over_{peer}": ratios(totals["trainway"], totals[peer]).document()
                    for peer in ("torchrun", "ft_launcher")
                },
                "parts": {
                    name: round(median(parts[part] for parts in turns["trainway"]), 3)
                    for part, name in enumerate(PARTS)
                },
            }
    record(figures, ["torch"], chosen.out)


def recovery(start: Start, root: Path, ranks: int, number: signal.Signals, drawn: random.Random) -> list[float]:
    """Return the seconds from the fault of a rank until the end of the next step, in parts."""
    directory = Path(tempfile.mkdtemp(dir=root))
    command, environment = start(root, directory, ranks, ["--standalone", f"--nproc-per-node={ranks}"])
    with running(command, os.environ | ENVIRONMENT | environment, directory / "log") as torchrun:
        wait([torchrun], directory, lambda events: len(events) >= STEPS_BEFORE)
        time.sleep(drawn.uniform(0, MOMENT_SECONDS))
        os.kill(drawn.choice(sorted(filter(is_rank, ranks_of(torchrun.pid)))), number)
        return until_next_step([torchrun], directory, time.time(), f"{number.name} {start.__name__}")


def recovery_of_host(start: Start, root: Path, drawn: random.Random) -> list[float]:
    """Lose a host while a spare host waits, and return the durations that `until_next_step` returns."""
    directory = Path(tempfile.mkdtemp(dir=root))

    def command(meet: list[str]) -> list[str]:
        return start(root, directory, HOSTS_THAT_TRAIN, meet)[0]

    environment = os.environ | ENVIRONMENT | start(root, directory, HOSTS_THAT_TRAIN, [])[1]
    # The training job has the settings of `trainway launch`. The peers have the defaults of PyTorch.
    own = many_nodes(HOSTS_THAT_TRAIN, 1, endpoint="", run="", max_restarts=0)["PET_RDZV_CONF"]
    conf = own if start is trainway else "read_timeout=60"
    with training_hosts(command, environment, conf, directory) as hosts:
        everywhere = [host.process for host in hosts]
        wait(everywhere, directory, lambda events: len(events) >= STEPS_BEFORE)
        time.sleep(drawn.uniform(0, MOMENT_SECONDS))
        # A spare host cannot replace the host of the rendezvous.
        lost = next(host for host in hosts[1:] if any(map(is_rank, host.ranks())))
        lost.lose()
        remaining = [host.process for host in hosts if host is not lost]
        return until_next_step(remaining, directory, time.time(), f"lost host {start.__name__}")


def until_next_step(launchers: list[subprocess.Popen[bytes]], directory: Path, fault: float, what: str) -> list[float]:
    """Wait for the first step after a restart. Return the seconds from the fault to the end of the step, by PARTS.

    The peers do not report parts, so the list has one value for them.
    """
    after = wait(launchers, directory, lambda events: any(event["attempt"] for event in events))
    first = next(event for event in after if event["attempt"])
    print(f"{what}: {first['time'] - fault:.2f} s", file=sys.stderr, flush=True)
    if "ready" not in first:
        return [first["time"] - fault]
    return [first["imported"] - fault, first["ready"] - first["imported"], first["time"] - first["ready"]]


def trainway(root: Path, directory: Path, ranks: int, meet: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command of the training job, and what the launcher adds to its environment."""
    job = {
        "name": "recovery",
        "model": "tiny",
        "data": {"train": str(root / "corpus"), "sequence_length": 32},
        "precision": "fp32",
        "batch": {"global": 2 * ranks, "micro": 2},
        "steps": 10**6,
        "checkpoint": {"every": 10, "location": str(directory / "checkpoints")},
        "hang_detection": {"least_seconds": HANG_SECONDS},
    }
    (directory / "job.yaml").write_text(yaml.safe_dump(job))
    # The agent of the job reads the options of torchrun from the environment. Those of `meet` differ between hosts.
    options = (option.removeprefix("--").partition("=") for option in ("--max-restarts=3", *meet))
    told = [f"PET_{name.upper().replace('-', '_')}={value or 1}" for name, _, value in options]
    command = ["env", *told, sys.executable, *ELASTIC[1:]]
    return command, {"TRAINWAY_RUN": str(directory), "TRAINWAY_JOB": str(directory / "job.yaml")}


def bare(_root: Path, directory: Path, _ranks: int, meet: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command of the hand-written loop."""
    program = str(Path(__file__).with_name("bare_restarted.py"))
    return [*torchrun(meet), program, str(directory), str(HANG_SECONDS)], {}


def monitored(root: Path, directory: Path, ranks: int, meet: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command of the hand-written loop under ft_launcher, and the environment that finds ft_launcher."""
    command, _ = bare(root, directory, ranks, meet)
    launcher = [
        "nvidia_resiliency_ext.fault_tolerance.launcher",
        f"--ft-rank-heartbeat-timeout={HANG_SECONDS}",
        f"--ft-initial-rank-heartbeat-timeout={FIRST_HEARTBEAT_SECONDS}",
        f"--ft-workload-check-interval={LOOK_SECONDS}",
        "--ft-enable-nic-monitor=false",
    ]
    where = command.index("torch.distributed.run")
    # ft_launcher leaves its sockets in the directory for temporary files when it is killed.
    environment = {"PYTHONPATH": str(root / PEER), "TMPDIR": str(directory)}
    return [*command[:where], *launcher, *command[where + 1 :]], environment


def is_rank(process: int) -> bool:
    """Return whether a child of the launcher is a rank. ft_launcher also starts a monitor for each rank.

    A fork has the environment of its rank only in its own memory, and the words of the process that it is a fork of.
    """
    words, environment = (Path(f"/proc/{process}/{name}").read_bytes() for name in ("cmdline", "environ"))
    return b"\0LOCAL_RANK=" in environment or b"multiprocessing.forkserver" in words


def torchrun(meet: list[str]) -> list[str]:
    """Return the command of torchrun. `meet` has its rendezvous options."""
    return [sys.executable, "-m", "torch.distributed.run", "--max-restarts=3", *meet]


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run torchrun for as long as the context lasts, and then kill it and its ranks."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        try:
            yield process
        finally:
            ranks = ranks_of(process.pid)
            process.kill()
            for rank in ranks:
                os.kill(rank, signal.SIGKILL)
            process.wait()


def wait(
    launchers: list[subprocess.Popen[bytes]], directory: Path, done: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    """Wait until the run has taken new steps, and return all its steps.

    Exit the benchmark if a launcher ends, or the run takes too long.
    """
    end = time.monotonic() + LONGEST
    while not done(events := steps(directory)):
        if any(each.poll() is not None for each in launchers) or time.monotonic() > end:
            logs = "\n".join(log.read_text()[-3000:] for log in sorted(directory.glob("log*")))
            sys.exit(f"the run took no step that was expected:\n{logs}")
        time.sleep(0.02)
    return events


def steps(directory: Path) -> list[dict[str, Any]]:
    """Return the steps of a run: `time` of the end, `attempt`, and for the training job when that was `ready`."""
    found: list[dict[str, Any]] = []
    attempt, process, ready, imported = -1, "", 0.0, 0.0
    for name in ("metrics.jsonl", "steps.jsonl"):
        path = directory / name
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            event = json.loads(line)
            if event.get("event") == "start":
                attempt, ready = attempt + 1, event["time"]
                imported = ready - event["startup_seconds"]
            elif event.get("event") == "step":
                found.append({"time": event["time"], "attempt": attempt, "ready": ready, "imported": imported})
            elif "process" in event:
                attempt += event["process"] != process
                process = event["process"]
                found.append({"time": event["time"], "attempt": attempt})
    return found


if __name__ == "__main__":
    main()
