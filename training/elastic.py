"""Start the ranks of a job on this node, and start them again when one fails:

    python -m training.elastic [--until-step N] [--profile]

This is `torchrun -m training.train` with a faster restart. Its options are those of torchrun, as the environment
variables that torchrun reads: PET_NNODES, PET_NPROC_PER_NODE, and so on. It differs from torchrun in this:

- The ranks are forks of one process that has imported PyTorch and the job (`warm.py`). An import takes most of the time
  of a restart. PET_START_METHOD=spawn starts ranks that import everything themselves.
- When a rank fails, the others of its node have SECONDS_AFTER_A_FAILURE to end. They cannot save without it. torchrun
  waits 30 seconds for a rank that is stopped.
- The restarts refill: PET_MAX_RESTARTS is the number of restarts in a row without a new checkpoint.
- A status that a restart cannot change ends the job at once, and is the status of this process. torchrun ends with 1.
- Each attempt has a store of its own (see `parallel/attempt.py`).
- The clocks of the hosts may differ (see `hosts/rendezvous.py`).
- A node that was named twice as the cause of a failure is left out, if the run can continue without it (see
  `hosts/stand_by.py`).
"""

import errno
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import sys
import tempfile
import time
import traceback
import uuid
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch.distributed import run as torchrun
from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup, WorkerState
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, record
from torch.distributed.elastic.rendezvous import RendezvousClosedError
from torch.distributed.launcher import api

from training.errors import GAVE_UP_STATUS, STATUSES_FOR_GOOD, StorageDenied
from training.hosts.agent import AGENT, PROGRESS, progress
from training.hosts.rendezvous import ignore_other_clocks
from training.hosts.restarts import count_start, take_back_start
from training.hosts.stand_by import stand_by
from training.hosts.suspect_nodes import attempt_of, excuse, judge_end
from training.hosts.this_node import node_name
from training.observe.run_state import write_failure

SECONDS_AFTER_A_FAILURE = 3
SECONDS_AFTER_ANOTHER_NODE = 10
RENDEZVOUS_PORT = 29500
"""torchrun's own default (torch/distributed/run.py)."""
# torchrun counts attempts by what is left of this number, in the names of logs, too. So it never begins again at one.
_MOST_ATTEMPTS = 1_000_000


class Agent(LocalElasticAgent):
    """torchrun's agent, with restarts that refill and ends that do not wait."""

    ended_for_good: int | None = None
    """The status of a rank that a restart cannot change. A node has one agent."""
    attempt: str | None = None
    """The name of the attempt of its ranks, or None before the first one."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._budget = int(os.environ.get("PET_MAX_RESTARTS", "0"))
        self._failures, self._furthest = 0, progress()
        self._seconds_to_end = _seconds_to_save()

    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        stand_by(worker_group.spec.rdzv_handler, _run())
        super()._rendezvous(worker_group)
        Agent.attempt = attempt_of(str(worker_group.master_addr), worker_group.master_port)

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        started: dict[int, Any] = super()._start_workers(worker_group)
        # Whoever finds a failed rank waits 30 seconds for the others, and no option changes that
        # (torch/multiprocessing/spawn.py of 2.13.0, `join`).
        self._ranks = ranks = self._pcontext._pc  # type: ignore[union-attr]
        wait, close = ranks._join_procs_with_timeout, self._pcontext.close  # type: ignore[union-attr]
        ranks._join_procs_with_timeout = lambda seconds: wait(min(seconds, SECONDS_AFTER_A_FAILURE))
        # PyTorch 2.11 has no option for the time that ranks have to end, and 2.12 does not use it everywhere.
        self._seconds_to_end = _seconds_to_save()

        # A rank that returns waits for this event.
        finished = self._pcontext._worker_finished_event  # type: ignore[union-attr]

        def wake() -> None:
            # `set` waits for each rank that waits, also for one that was killed meanwhile, and so for ever
            # (multiprocessing/synchronize.py of Python 3.11, `Condition.notify`).
            finished._flag.release()
            for _ in started:
                finished._cond._wait_semaphore.release()

        def close_in_time(number: signal.Signals | None = None, _seconds: object = None) -> None:
            # Nobody reads any more what a rank returns.
            wake()
            close(number, self._seconds_to_end)

        vars(finished)["set"] = wake
        vars(self._pcontext)["close"] = close_in_time
        return started

    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        # A node that joins or leaves stops ranks that work, and they save.
        if worker_group.state in (WorkerState.UNHEALTHY, WorkerState.FAILED):
            self._seconds_to_end = SECONDS_AFTER_A_FAILURE
        self._shutdown()

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result: RunResult = super()._monitor_workers(worker_group)
        statuses = [process.exitcode for process in self._ranks.processes]
        if result.state is WorkerState.HEALTHY and None not in statuses:
            # PyTorch waits for what each rank returns, and a rank that calls `os._exit(0)` returns nothing.
            first, (pid, *_) = worker_group.workers[0], self._ranks.pids()
            failure = ProcessFailure(local_rank=0, pid=pid, exitcode=1, error_file="<N/A>")
            result = RunResult(WorkerState.FAILED, failures={first.global_rank: failure})
            print(f"all ranks of this node ended, with status {statuses}, and not as a job ends", file=sys.stderr)
        if result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED):
            # Without it, the ranks have a directory that the agent does not know.
            if "TRAINWAY_RUN" in os.environ:
                judge_end(_run(), statuses, Agent.attempt or "")
            reached = progress()
            self._failures = 1 if reached > self._furthest else self._failures + 1
            self._furthest = max(reached, self._furthest)
            if why := self._end(statuses):
                print(f"the ranks are not started again: {why}", file=sys.stderr, flush=True)
                self._remaining_restarts = 0
        return result

    def _end(self, statuses: Sequence[int | None]) -> str | None:
        """Return why a failure ends the job, or None if the ranks start again."""
        # Several ranks may have ended since the last look, and PyTorch names one of them.
        for rank, status in enumerate(statuses):
            if status in STATUSES_FOR_GOOD:
                Agent.ended_for_good = status
                return f"rank {rank} of this node ended with status {status}, for good"
        if self._failures > self._budget:
            since = f"since the checkpoint of step {self._furthest}" if self._furthest else "without a new checkpoint"
            return (
                f"they failed {_times(self._failures)} {since}, and may be restarted {_times(self._budget)} without one"
            )
        return None


def _seconds_to_save() -> int:
    """Return the time that ranks have to end after a stop, by the names that torchrun has for it."""
    names = ("PET_SHUTDOWN_TIMEOUT", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT")
    return int(next((os.environ[name] for name in names if os.environ.get(name)), "30"))


def _times(count: int) -> str:
    return f"{count} time" if count == 1 else f"{count} times"


@record
def main() -> None:
    """Start the ranks, and wait until the job has ended."""
    # Without it, the store of an attempt outlives its ranks, and hosts do not learn of a new store.
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    os.environ[AGENT] = str(os.getpid())
    run = _run()
    # PyTorch sets its handlers when the first ranks start. Until then, the nodes wait for each other, for an hour on
    # Kubernetes, and Linux does not let the first process of a container end by a signal without a handler.
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _stop)
    if why := count_start(run):
        print(f"the run is not started again: {why}", file=sys.stderr, flush=True)
        write_failure(f"the run is not started again: {why}", GAVE_UP_STATUS)
        sys.exit(GAVE_UP_STATUS)
    try:
        _check_logs()
        _start()
    except StorageDenied as error:
        print(error, file=sys.stderr, flush=True)
        write_failure(str(error), error.status)
        sys.exit(error.status)
    except SignalException:
        take_back_start(run)
        # Others may take ranks that were told to stop for ranks that hang.
        if Agent.attempt and "TRAINWAY_RUN" in os.environ:
            excuse(run, node_name(), Agent.attempt)
        raise
    except RendezvousClosedError:
        print("the run has ended on another node, whose log says why", file=sys.stderr, flush=True)
        # Kubernetes takes the first pod that fails for the cause, and starts the run again after a status of 1.
        time.sleep(SECONDS_AFTER_ANOTHER_NODE)
        sys.exit(1)
    except ChildFailedError as error:
        traceback.print_exception(error)
        sys.exit(Agent.ended_for_good or 1)


def _run() -> Path:
    return Path(os.environ.get("TRAINWAY_RUN", "."))


def _stop(number: int, _frame: Any) -> None:
    raise SignalException("the node was told to stop", signal.Signals(number))


def _check_logs() -> None:
    """Make the directory of the logs, which PyTorch makes before any rank could say why it cannot write.

    Raises:
        StorageDenied: the directory cannot be written.
    """
    if not (directory := os.environ.get("PET_LOG_DIR")):
        return
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
    if not os.access(directory, os.W_OK):
        raise StorageDenied(
            f"{directory}: the logs of the run cannot be written. Mount the file system read-write, let the user of "
            f"this job (ID {os.geteuid()}) write there, or give the run another directory"
        )


def _start() -> None:
    config, _, _ = torchrun.config_from_args(options_for(sys.argv[1:]))
    # Elsewhere than on Linux, a fork of a process with the libraries of the system can crash.
    # https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods (read 2026-11-30)
    config.start_method = os.environ.get("PET_START_METHOD", "forkserver" if sys.platform == "linux" else "spawn")
    config.max_restarts = _MOST_ATTEMPTS
    # The function that makes the agent names its class (torch/distributed/launcher/api.py of 2.11 to 2.13).
    vars(api)["LocalElasticAgent"] = Agent
    ignore_other_clocks()
    with tempfile.TemporaryDirectory(prefix="trainway-progress-") as directory:
        os.environ[PROGRESS] = str(Path(directory) / "step")
        if config.start_method == "forkserver":
            # The ranks have the environment that this process has now. A node that waits for others imports meanwhile.
            multiprocessing.set_forkserver_preload(["training.warm"])
            try:
                multiprocessing.forkserver.ensure_running()
            except OSError as error:
                # Its socket is below TMPDIR, and the path of a socket has 107 bytes at most.
                print(
                    f"each rank imports everything itself, because its warm process cannot start: {error}", flush=True
                )
                config.start_method = "spawn"
        api.elastic_launch(config, run_rank)(*sys.argv[1:])


def options_for(arguments: Sequence[str]) -> Namespace:
    """Return torchrun's options from the environment, for a job with these arguments.

    torchrun completes its options after it has read them, in the function that also starts the ranks
    (torch/distributed/run.py of 2.13.0, `run`, read 2026-11-29).
    """
    options: Namespace = torchrun.parse_args(  # type: ignore[no-untyped-call] # it has no annotations
        ["-m", "training.train", *arguments]
    )
    names_no_host = options.rdzv_backend == "static" and not options.rdzv_endpoint and options.master_port is None
    _, most = torchrun.parse_min_max_nnodes(options.nnodes)
    if options.standalone or (names_no_host and most == 1):
        options.rdzv_backend, options.rdzv_endpoint, options.rdzv_id = "c10d", "localhost:0", str(uuid.uuid4())
    if options.master_port is None:
        options.master_port = RENDEZVOUS_PORT
    return options


def run_rank(*arguments: str) -> None:
    """Run `training.train` in the process of a rank, as `python -u -m training.train ARGUMENT…` does."""
    from training.train import main as train
    from training.warm import hear_signals

    hear_signals()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    sys.argv = ["training.train", *arguments]
    try:
        train()
    except KeyboardInterrupt:
        # The agent would take a rank without a status for one that still runs.
        sys.exit(128 + signal.SIGINT)
    except Exception:
        # torchrun keeps the traceback in a file of its own.
        traceback.print_exc()
        raise


if __name__ == "__main__":
    main()
