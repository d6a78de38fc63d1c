"""Relay connections to a port of this machine through a command that runs a program elsewhere, such as srun.

    python -c "from trainway.launch.slurm.relay import main; main()" LOCAL_PORT PORT -- srun --jobid=7 --overlap …

Each connection starts the command with a program that connects to PORT of its own loopback interface. The bytes go
through the standard input and output of the command.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO

from trainway.spec.errors import UsageError, usage_error

# What runs on the node. Python 3 of the operating system is enough.
_CONNECT = """
import os, socket, sys, threading
try:
    there = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
except OSError as error:
    sys.exit("port %s does not answer: %s" % (sys.argv[1], error))
def send():
    while data := os.read(0, 65536):
        there.sendall(data)
    there.shutdown(socket.SHUT_WR)
threading.Thread(target=send, daemon=True).start()
while data := there.recv(65536):
    while data:
        data = data[os.write(1, data):]
"""


# How long srun has to end the process on the node.
SECONDS_TO_END = 10


def main() -> None:
    """Relay connections until the process ends."""
    local_port, port, _, *command = sys.argv[1:]
    try:
        listener = listen(int(local_port))
    except UsageError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    running = set[subprocess.Popen[bytes]]()
    there = (*command, "python3", "-c", _CONNECT, port)
    try:
        while True:
            connection, _address = listener.accept()
            threading.Thread(target=_relay, args=(connection, there, running), daemon=True).start()
    except KeyboardInterrupt:
        # A connection whose other end is silent would last as long as the job.
        for process in list(running):
            process.terminate()
        for process in list(running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS_TO_END)


def listen(port: int) -> socket.socket:
    """Return a socket that listens on a port of the loopback interface. Raises UsageError if the port is taken."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        what = f"port {port} of this machine cannot be forwarded"
        raise usage_error(what, why=str(error), fix="choose another one with --local-port") from None


def _relay(connection: socket.socket, command: Sequence[str], running: set[subprocess.Popen[bytes]]) -> None:
    """Copy bytes between a connection and the command, until the command ends. Until then, it is in `running`."""
    with connection, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        running.add(process)
        assert process.stdin is not None and process.stdout is not None
        sender = threading.Thread(target=_send, args=(connection, process.stdin), daemon=True)
        sender.start()
        while data := process.stdout.read(65536):
            try:
                connection.sendall(data)
            except OSError:
                process.terminate()
                break
        # A close alone sends nothing while the other thread waits in recv(2), and both sides would wait for ever.
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    running.discard(process)


def _send(connection: socket.socket, pipe: IO[bytes]) -> None:
    try:
        while data := connection.recv(65536):
            pipe.write(data)
    except OSError:
        pass
    finally:
        pipe.close()


if __name__ == "__main__":
    main()
