"""The relay of connections, with a program on this machine in place of srun."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import psutil  # type: ignore[import-untyped]
import pytest

from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.ports import free_ports

# Ends a hang.
SECONDS = 60


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Relay one port of this machine to another one, on which nothing listens."""
    local, port = free_ports(2)
    relay = (sys.executable, "-c", "from trainway.launch.slurm.relay import main; main()")
    running = subprocess.Popen([*relay, str(local), str(port), "--", "env"], stderr=subprocess.DEVNULL)
    listener = psutil.Process(running.pid)
    try:
        wait_for("it listens", lambda: any(each.status == "LISTEN" for each in listener.net_connections()))
        yield local, port
    finally:
        running.kill()
        running.wait()


def test_a_connection_ends_whose_port_does_not_answer(ports: tuple[int, int]) -> None:
    """The client waits for an answer, as a browser does before the program listens."""
    with socket.create_connection(("127.0.0.1", ports[0]), SECONDS) as client:
        assert client.recv(1) == b""


def test_bytes_go_to_the_port_and_back(ports: tuple[int, int]) -> None:
    local, port = ports
    with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(("127.0.0.1", local)) as client:
        server.settimeout(SECONDS)
        client.settimeout(SECONDS)
        there, _ = server.accept()
        with there:
            there.settimeout(SECONDS)
            client.sendall(b"question")
            assert there.recv(100) == b"question"
            there.sendall(b"answer")
        assert client.makefile("rb").read() == b"answer"
