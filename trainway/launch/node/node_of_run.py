"""The node and the attempt of a run: the environment of the program, and the record of how it ended."""

import contextlib
import json
import os
import re
import sys
import time
from pathlib import Path

from trainway.launch.node.exit_statuses import NOT_EXECUTABLE, NOT_FOUND, CannotStart
from trainway.launch.node.failure_causes import SECONDS_OF_A_START
from trainway.launch.node.node_rank import node_rank
from trainway.launch.node.nodes_of_run import name_of_node, write_node
from trainway.launch.node.program_output import KEPT_IN
from trainway.launch.node.program_stacks import VARIABLE
from trainway.launch.node.ray_job import end_ray_job
from trainway.launch.node.run_state import NodesInState, NodeState
from trainway.launch.node.stop_request import SECONDS_BETWEEN_LOOKS_AT_FILES, StopRequest

LAUNCH = "launch-id"
"""A file beside the starter with a name for the launch, where the starter can be started again after any end."""

RESTARTS = "TRAINWAY_RESTARTS"
"""The environment variable with `life_cycle.restarts` of the job file, where the run counts its restarts itself."""

FIRST_END = "first-end"
"""A file of an attempt with how the first node ended that did: failed, stopped, or succeeded."""

# What NodeOfRun.environment adds for programs, and mpirun passes on to its ranks.
_TOLD_BY_STARTER = (
    "PET_SHUTDOWN_TIMEOUT",
    "PET_SIGNALS_TO_HANDLE",
    "TORCHELASTIC_SIGNALS_TO_HANDLE",
    "TRAINWAY_ATTEMPT",
    "TRAINWAY_HEAD",
)


class NodeOfRun:
    """The node of a run on which this process is, and the attempt, which is the number of the start from 1."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.rank = node_rank()
        self.attempt = int(os.environ.get("TRAINWAY_ATTEMPT") or self._count())
        self.started = time.time()
        # The clock of a node can jump.
        self._began = time.monotonic()
        self._launch = launch_here()
        start = self._launch or f"attempt {self.attempt}"
        write_node(run, self.rank, start, name_of_node())
        self.state = NodeState(self.attempt, self.started, NodesInState(run, start), leads=self.rank == 0)
        self._end = self._end_of_launch()
        self._record("running")

    @property
    def seconds(self) -> float:
        """The seconds since the start of the attempt on this node."""
        return time.monotonic() - self._began

    def environment(self, grace: float) -> "dict[str, str]":
        """Return the environment of the program. Create the directory of its outputs."""
        # For this starter alone: a program that launches a run on its node would print nothing of it.
        told = {name: value for name, value in os.environ.items() if name != KEPT_IN}
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
            VARIABLE: told.get(VARIABLE, "1"),
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

    @property
    def hang_file(self) -> Path:
        """The file by which one node tells the others that the program hangs."""
        return self.run / "attempts" / str(self.attempt) / "hang"

    def ended(self, failure: str, status: int, stopped: str = "") -> int:
        """Record how the program ended on this node, print a failure or a stop, and return the exit status."""
        outcome = "failed" if failure else "stopped" if stopped else "succeeded"
        is_for_good = status in (NOT_EXECUTABLE, NOT_FOUND) and bool(failure)
        if is_for_good and self._end is not None:
            with contextlib.suppress(OSError), self._end.open("x") as file:
                json.dump({"status": status, "failure": failure}, file)
        self._record(outcome, failure or stopped, failure)
        if failure or stopped:
            print(f"trainway: {outcome} on node {self.rank}: {failure or stopped}", file=sys.stderr, flush=True)
        self.state.end(outcome, failure or stopped, status)
        if is_for_good:
            end_ray_job()
        return status

    def successes(self) -> "set[tuple[str, str]]":
        """Return the records of nodes that have succeeded, also in earlier attempts."""
        found = set()
        for file in (self.run / "attempts").glob("*/node-*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                text = file.read_text()
                if json.loads(text)["outcome"] == "succeeded":
                    found.add((str(file), text))
        return found

    def succeeds_elsewhere(self, before: "set[tuple[str, str]]", seconds: float, stop: StopRequest) -> bool:
        """Return whether another node succeeds within some seconds. A request to stop ends the wait.

        `before` has the `successes` of the time when the program began: clocks of nodes differ.
        """
        end = time.monotonic() + seconds
        while not (is_so := bool(self.successes() - before)) and time.monotonic() < end and stop.asked_at is None:
            time.sleep(SECONDS_BETWEEN_LOOKS_AT_FILES)
            stop.look()
        return is_so

    def check_launch(self) -> None:
        """Raise CannotStart if an earlier attempt of this launch failed on any node so that another one cannot help.

        `trainway resume` is another launch.
        """
        if self._end is None:
            return
        try:
            end = json.loads(self._end.read_text())
        except (FileNotFoundError, ValueError):
            return
        raise CannotStart(end["failure"], end["status"])

    def check_attempts(self) -> None:
        """Raise CannotStart if the last two attempts of this launch failed in the same way, without progress.

        An attempt that lost a node, or of which a node was told to stop first, is not one that the program failed.
        """
        endings = [self._failure_without_progress(self.attempt - back) for back in (1, 2)]
        if endings[0] is not None and endings[0] == endings[1]:
            raise CannotStart(f"two attempts in a row failed without a new step: {self._failure(self.attempt - 1)}")

    def check_restarts(self) -> None:
        """Raise CannotStart if Slurm has queued the job again more often than the job file allows.

        An attempt counts unless all of its nodes were told to stop, as before a preemption. A node that is lost has not
        written how it ended. `trainway resume` is another job.
        """
        job = os.environ.get("SLURM_JOB_ID")
        if RESTARTS not in os.environ or job is None:
            return
        counted = set()
        for file in (self.run / "attempts").glob("*/node-*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                record = json.loads(file.read_text())
                if record["job"] == job and record["attempt"] < self.attempt and record["outcome"] != "stopped":
                    counted.add(record["attempt"])
        if len(counted) > int(os.environ[RESTARTS]):
            why = f"it was lost or failed in {len(counted)} attempts, and life_cycle.restarts is {os.environ[RESTARTS]}"
            raise CannotStart(f"the run is not started again: {why}")

    def _failure_without_progress(self, attempt: int) -> "str | None":
        """Return how an attempt of this launch failed, without its numbers. None if it did not, or made progress."""
        if self._launch is None:
            return None
        records = []
        for file in (self.run / "attempts" / str(attempt)).glob("node-*.json"):
            with contextlib.suppress(OSError, ValueError):
                records.append(json.loads(file.read_text()))
        of_launch = [each for each in records if each.get("launch") == self._launch]
        is_known = of_launch and all(each["outcome"] != "running" and not each.get("progress") for each in of_launch)
        if not is_known or self._first_end(attempt) != "failed":
            return None
        # Addresses and numbers of processes differ.
        return re.sub(r"0x[0-9a-f]+|\d{4,}", "#", self._failure(attempt))

    def _failure(self, attempt: int) -> str:
        return self._word(attempt, "failure")

    def _first_end(self, attempt: int) -> str:
        """Return how the first node ended that did. The times in the records are those of clocks that can differ."""
        return self._word(attempt, FIRST_END)

    def _word(self, attempt: int, name: str) -> str:
        try:
            return (self.run / "attempts" / str(attempt) / name).read_text().strip()
        except OSError:
            return ""

    def _end_of_launch(self) -> "Path | None":
        """Return the file that says why the launch failed for good. None where the target reads the exit status."""
        return None if self._launch is None else self.run / "attempts" / f"end-of-{self._launch}.json"

    def _record(self, outcome: str, reason: str = "", failure: str = "") -> None:
        record = {"attempt": self.attempt, "node_rank": self.rank, "outcome": outcome, "reason": reason}
        record |= {} if self._launch is None else {"launch": self._launch, "progress": self._made_progress()}
        record |= {"job": os.environ["SLURM_JOB_ID"]} if "SLURM_JOB_ID" in os.environ else {}
        times = {"started": self.started, "time": time.time()}
        directory = self.run / "attempts" / str(self.attempt)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"node-{self.rank}.json").write_text(json.dumps({**record, **times}) + "\n")
            if outcome != "running":
                _write_first(directory / FIRST_END, outcome)
            if failure:
                # The first node that fails says why the run failed.
                _write_first(directory / "failure", failure)
        except OSError as problem:
            print(f"trainway: {problem}", file=sys.stderr, flush=True)

    def _made_progress(self) -> bool:
        """Return whether the program has printed a step, or has run for longer than programs take to begin."""
        return self.state.has_step or self.seconds >= SECONDS_OF_A_START

    def _count(self) -> int:
        counter = self.run / "attempts" / f"of-node-{self.rank}"
        counter.parent.mkdir(parents=True, exist_ok=True)
        number = int(counter.read_text()) + 1 if counter.exists() else 1
        counter.write_text(str(number))
        return number


def launch_here() -> "str | None":
    """Return the name of the launch, where a target starts the run again by itself."""
    try:
        return Path(__file__).with_name(LAUNCH).read_text().strip()
    except FileNotFoundError:
        return None


def _write_first(file: Path, word: str) -> None:
    """Write a file unless another node has written it. Raises OSError if it cannot be written."""
    with contextlib.suppress(FileExistsError), file.open("x") as opened:
        opened.write(f"{word}\n")
