"""Start torchrun and Python programs from a process that has already imported torch.

Importing torch and the job takes several CPU seconds in the agent and in every rank, which is most of what a test of a
small job costs. The server imports both once. For each start it forks a torchrun agent, and the agent forks its ranks.
Everything else is torchrun's own code: rendezvous, restarts, signals, exit statuses, and log files. A program
that needs no torchrun is a fork of the server itself.

Tests of reports, signals, and mistakes start programs as well, so that a difference between the two shows there.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NoReturn

from tests.emulator_forks import reap

ROOT = Path(__file__).parents[2]
# One request: its length never reaches this many bytes, because an environment has some KiB.
LARGEST_REQUEST = 2**17
# <linux/sched.h> and <linux/mount.h>
_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWPID, _CLONE_NEWNET = 0x20000, 0x04000000, 0x20000000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000


class Started:
    """A process that the server has forked, with what tests use of `subprocess.Popen`."""

    def __init__(self, output: int, status: int) -> None:
        self._output, self._status = os.fdopen(output, encoding="utf-8", errors="replace"), os.fdopen(status)
        self.pid = int(self._status.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or None while the agent runs."""
        if self.returncode is None:
            os.set_blocking(self._status.fileno(), False)
            with contextlib.suppress(BlockingIOError, TypeError):
                self._take(self._status.readline())
        return self.returncode

    def readline(self) -> str:
        """Wait for the next line that the process prints, and return it. Do not use it with `communicate`."""
        return self._output.readline()

    def wait(self, timeout: float = 180) -> int:
        """Wait for the process's end. Raises subprocess.TimeoutExpired after so many seconds."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(0.01)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float = 180) -> tuple[str, None]:
        """Return what the process and its children print until all of them have ended, as one text."""
        end = time.monotonic() + timeout
        os.set_blocking(self._output.fileno(), False)
        parts = [b""]
        while True:
            with contextlib.suppress(BlockingIOError):
                parts.append(os.read(self._output.fileno(), 2**16))
                if not parts[-1]:
                    break
                continue
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout, b"".join(parts))
            time.sleep(0.01)
        self.wait(max(1.0, end - time.monotonic()))
        return b"".join(parts).decode(errors="replace"), None

    def kill(self) -> None:
        """Send SIGKILL to the process, and to nothing that it started. One that has ended stays as it is."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        os.kill(self.pid, signal.SIGTERM)

    def _take(self, line: str) -> None:
        if line:
            self.returncode = os.waitstatus_to_exitcode(int(line))
            self._status.close()


class TorchrunServer:
    """The client of one server, for one test process."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (self._socket, theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_REQUEST)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.training.torchrun_server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        theirs.close()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], network: str | None = None) -> Started:
        """Start `torchrun ARGUMENTS` with this environment.

        With the name of a network namespace, torchrun is the first process of a host: all others end with it.

        The ranks meet in a store of rank 0 and not in the agent's. The thread of the agent's store looks up the names
        of ranks that connect. A rank that is forked meanwhile would inherit the resolver's lock, locked, and hang.
        """
        variables = {**environment, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        return self._start("torchrun", arguments, variables, network)

    def start_python(
        self, arguments: Sequence[str], environment: Mapping[str, str], network: str | None = None
    ) -> Started:
        """Start `python -m MODULE ARGUMENT…` or `python FILE ARGUMENT…` with this environment.

        With the name of a network namespace, Python is the first process of a host, as in `start`.
        """
        return self._start("python", arguments, environment, network)

    @cached_property
    def modules_of_a_job(self) -> frozenset[str]:
        """Return the modules that a new process has after `import training.train, training.prepare`."""
        return frozenset(json.loads(self._socket.recv(LARGEST_REQUEST)))

    def _start(
        self, program: str, arguments: Sequence[str], environment: Mapping[str, str], network: str | None
    ) -> Started:
        output, their_output = os.pipe()
        status, their_status = os.pipe()
        asked = {"program": program, "arguments": list(arguments), "environment": dict(environment), "network": network}
        request = json.dumps(asked).encode()
        socket.send_fds(self._socket, [request], [their_output, their_status])
        os.close(their_output)
        os.close(their_status)
        return Started(output, status)

    def run_program(self, program: Path, *arguments: str, ranks: int, timeout: float = 280) -> str:
        """Run a Python file of the tests on so many ranks of this machine, and return what it printed.

        Raises AssertionError with the output if the program fails.
        """
        command = ["--standalone", "--nproc-per-node", str(ranks), str(program), *arguments]
        started = self.start(command, os.environ | {"OMP_NUM_THREADS": "1"})
        output, _ = started.communicate(timeout)
        assert started.returncode == 0, output
        return output

    def close(self) -> None:
        """End the server; processes that still run continue."""
        # Not closed yet: the server would see an error if its message about modules was not read.
        self._socket.shutdown(socket.SHUT_WR)
        self._server.wait(300)
        self._socket.close()


def serve(requests: socket.socket) -> None:
    """Fork an agent for every request, until the client closes its end."""
    for module in ("training.train", "training.prepare"):
        importlib.import_module(module)
    requests.send(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})).encode())
    # Agents import the first module. Ranks import the other modules when they need them.
    for module in (
        "torch.distributed.run",
        "torch.distributed.pipelining",
        "torch.nn.attention.bias",
        "torch.utils.tensorboard",
    ):
        importlib.import_module(module)
    del sys.modules["training.train"], sys.modules["training.prepare"]  # they run as programs
    # Each rank collects garbage, and would search these modules and copy their memory.
    gc.freeze()
    # Programs of the tests inherit the fault handler, which prints the stack if native code crashes.
    faulthandler.enable()
    signal.signal(signal.SIGCHLD, reap)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, LARGEST_REQUEST, 2)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _child(partial(_watch, json.loads(message), *descriptors))
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(request: dict[str, Any], output: int, status: int) -> None:
    """Fork the agent, and write down its process id and then its status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if request["network"]:
        _enter_host(request["network"])
    agent = os.fork()
    if agent == 0:
        os.close(status)
        if request["network"]:
            _call("mount", b"proc", b"/proc", b"proc", 0, None)
        _child(partial(_run, request, output))
    os.close(output)
    os.write(status, f"{agent}\n".encode())
    os.write(status, f"{os.waitpid(agent, 0)[1]}\n".encode())


def _enter_host(network: str) -> None:
    """Enter a network namespace, and new namespaces of mounts, of the host's name, and of the processes from now on."""
    with Path(f"/var/run/netns/{network}").open() as namespace:
        _call("setns", namespace.fileno(), _CLONE_NEWNET)
    _call("unshare", _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWPID)
    _call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    socket.sethostname(network)


def _call(function: str, *arguments: Any) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments):
        raise OSError(ctypes.get_errno(), function)


def _run(request: dict[str, Any], output: int) -> None:
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["program"] == "python":
        _python(["python", *request["arguments"]])
        return
    run = importlib.import_module("torch.distributed.run")
    elastic = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"
    importlib.import_module(elastic).Popen = _ForkedRank  # type: ignore[attr-defined]
    run.main(request["arguments"])


class _ForkedRank:
    """In the place of `subprocess.Popen`, a fork of this process that runs the same Python program."""

    def __init__(
        self, args: Sequence[str], env: Mapping[str, str], stdout: Any, stderr: Any, start_new_session: bool
    ) -> None:
        self.returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            if start_new_session:
                os.setsid()
            for stream, number in ((stdout, 1), (stderr, 2)):
                if stream is not None:
                    os.dup2(stream.fileno(), number)
            # What the agent does with signals is not what a new program does.
            for caught in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
                signal.signal(caught, signal.SIG_DFL)
            os.environ.clear()
            os.environ.update(env)
            _child(partial(_python, args))

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = time.monotonic() + (timeout or 0)
        while self.poll() is None:
            if timeout is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("rank", timeout)
            time.sleep(0.005)
        assert self.returncode is not None
        return self.returncode


def _python(arguments: Sequence[str]) -> None:
    """Run `python -u [-m MODULE | FILE] ARGUMENT…`, as torchrun asks for it, in this process."""
    _, *words = arguments
    while words[0] == "-u":
        del words[0]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if words[0] == "-m":
        # The job decides itself whether a crash prints the stack.
        faulthandler.disable()
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(words)
        sys.path[0] = str(Path(words[0]).parent)
        runpy.run_path(words[0], run_name="__main__")


def _child(body: Callable[[], None]) -> NoReturn:
    """Run the body as the whole of a forked process, and leave with the status that Python would leave with.

    Without Python's own way out: it would wait for threads that the parent has and the fork has not.
    """
    code = 1
    try:
        body()
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


@contextlib.contextmanager
def torchrun_server() -> Iterator[TorchrunServer]:
    """Run a server for as long as the context lasts."""
    server = TorchrunServer()
    try:
        yield server
    finally:
        server.close()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
