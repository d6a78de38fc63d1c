"""Run moto as an AWS endpoint on the loopback, for tests that start other processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen


@contextmanager
def moto_server() -> Iterator[str]:
    """Start a moto server, yield its URL, and then delete all resources and stop the server.

    All moto servers of a process share their resources. Without the deletion, a test file could not create a bucket
    whose name an earlier test file used.
    """
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    try:
        yield endpoint
    finally:
        reset(endpoint)
        server.stop()


def reset(endpoint: str) -> None:
    """Delete all resources of the moto servers of this process."""
    urlopen(Request(f"{endpoint}/moto-api/reset", method="POST")).close()
