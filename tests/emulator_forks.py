"""Starts emulators from a process that has imported and read already what every emulator needs.

A new process imports moto and cfn-lint, and reads botocore's models and IAM's managed policies. That takes more CPU
time than deploying a platform. The process does it once for a worker of pytest, and each emulator is a fork of it.
tests/emulator/test_process.py starts the server as a program, so that a difference between the two shows there.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from emulator import process

START_PROGRAM: Final = process.start_server
ROOT = Path(__file__).parents[1]
# One request: its length never reaches this many bytes, because an environment has some KiB.
LARGEST_REQUEST = 2**17
SERVICES = (
    *("cloudwatch", "codebuild", "ec2", "ecr", "eks", "events", "fsx", "iam", "kms", "logs", "s3", "scheduler"),
    *("sns", "sqs", "ssm", "sts"),
)


@dataclass(frozen=True)
class ForkedServer:
    """A server that was forked, with what `emulator.process` uses of `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None:
        """Return None while the server runs, and then 1: only its parent knows the exit status."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 1
        return None

    def kill(self) -> None:
        """Send SIGKILL to the server, if it runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def start_forked(arguments: Sequence[str], environment: dict[str, str], output: IO[bytes]) -> ForkedServer:
    """Start a server as `emulator.process.start_server` does, but as a fork of a process with everything imported.

    If the system has killed that process, for example because memory ran out, this function starts another one.
    """
    request = json.dumps({"arguments": list(arguments), "environment": environment, "directory": str(Path.cwd())})
    try:
        return _fork(request, output)
    except ConnectionError:
        _ready.cache_clear()
        return _fork(request, output)


def _fork(request: str, output: IO[bytes]) -> ForkedServer:
    socket.send_fds(_ready(), [request.encode()], [output.fileno()])
    if not (pid := _ready().recv(32)):
        raise ConnectionResetError("the process that forks emulators has ended")
    return ForkedServer(int(pid))


@cache
def _ready() -> socket.socket:
    """Return the connection to the process, which ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for each in (ours, theirs):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_REQUEST)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with theirs:
        subprocess.Popen(
            [sys.executable, "-m", "tests.emulator_forks", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
            env=environment,
        )
    return ours


def serve(requests: socket.socket) -> None:
    """Fork a server for every request, until the other process closes its end."""
    _prepare()
    signal.signal(signal.SIGCHLD, reap)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, LARGEST_REQUEST, 1)
        if not message:
            return
        (output,) = descriptors
        if (pid := os.fork()) == 0:
            requests.close()
            _serve(json.loads(message), output)
        os.close(output)
        requests.send(str(pid).encode())


def reap(*_: object) -> None:
    """Wait for the children that have ended, so that their CPU time counts as this process's (tests/durations.py)."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _prepare() -> None:
    """Import and read what every emulator needs, and keep nothing in the emulated AWS."""
    # As emulator.server does before it imports moto.
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"
    import boto3
    from moto.core.utils import get_service_model
    from moto.iam.models import iam_backends
    from moto.moto_server.werkzeug_app import create_backend_app

    from emulator import moto_repairs, protocol
    from emulator.registry import schema_keywords
    from emulator.server import ACCOUNT

    moto_repairs.read_service_models_once()
    session: Any = boto3.Session(aws_access_key_id="emulator", aws_secret_access_key="emulator")
    for service in SERVICES:
        session.client(service, region_name="us-west-2")
        create_backend_app(service)  # type: ignore[arg-type] # the names of services are literals there
        get_service_model(service)
    assert iam_backends[ACCOUNT]["aws"].managed_policies
    assert protocol.cloudformation_model() and schema_keywords
    # A server collects garbage, and would search all of this and copy its memory.
    gc.collect()
    gc.freeze()


def _serve(request: dict[str, Any], output: int) -> NoReturn:
    """Be the server, in a session of its own, with the request's arguments, environment, and current directory."""
    from emulator import server

    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.close(output)
        os.chdir(request["directory"])
        os.environ.clear()
        os.environ.update(request["environment"])
        server.main(request["arguments"])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
