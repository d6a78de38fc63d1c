"""A proxy on the loopback before the tests' S3 server, which fails some of the requests below a prefix.

The faults are those of S3 under load and of a network that breaks: it answers 503 SlowDown, does not answer, closes the
connection in the middle of the request, or answers a read with a wrong byte.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

Kind = Literal["none", "throttle", "hang", "drop", "wrong"]
SLOW_DOWN = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"""


@dataclass
class Faults:
    """What fails: `percent` of the requests that write below `prefix`, evenly spread. `failed` counts them.

    The kind `wrong` changes the content that requests below `prefix` read. After `most` failed requests, none fails.
    """

    kind: Kind = "none"
    percent: int = 100
    prefix: str = "/data/checkpoints/"
    failed: int = 0
    most: float = math.inf
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, method: str, path: str) -> Kind:
        """Return what happens to a request."""
        methods = ("GET",) if self.kind == "wrong" else ("PUT", "POST")
        if self.kind == "none" or method not in methods or not path.startswith(self.prefix):
            return "none"
        with self._lock:
            number = next(self._numbers)
            is_due = (number + 1) * self.percent // 100 > number * self.percent // 100
            fails = is_due and self.failed < self.most
            self.failed += fails
        return self.kind if fails else "none"


class Handler(BaseHTTPRequestHandler):
    """Pass one request on, or fail it."""

    protocol_version = "HTTP/1.1"
    faults: Faults
    server_behind: tuple[str, int]
    ended: threading.Event

    def pass_on(self) -> None:
        """Answer as the faults say."""
        fault = self.faults.next(self.command, self.path)
        if fault == "hang":
            self.ended.wait()
        if fault in ("hang", "drop"):
            self.close_connection = True
            return
        body = self._body()
        if fault == "throttle":
            self._answer(503, [("Content-Type", "application/xml")], SLOW_DOWN)
            return
        behind = http.client.HTTPConnection(*self.server_behind, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "transfer-encoding"}
        headers["Content-Length"] = str(len(body))
        behind.request(self.command, self.path, body, headers)
        answer = behind.getresponse()
        content = answer.read()
        if fault == "wrong" and content:
            middle = len(content) // 2
            content = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        lengths = [] if self.command != "HEAD" else [("Content-Length", answer.headers.get("Content-Length", "0"))]
        kept = [pair for pair in answer.getheaders() if pair[0].lower() not in ("content-length", "transfer-encoding")]
        self._answer(answer.status, kept + lengths, content)
        behind.close()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on

    def _body(self) -> bytes:
        if self.headers.get("Expect") == "100-continue":
            pass  # the base class has answered it
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while length := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(length))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextlib.contextmanager
def faulty_proxy(endpoint: str) -> Iterator[tuple[str, Faults]]:
    """Serve in front of an endpoint. Yields the proxy's endpoint and its faults, which can change at any time."""
    parts = urlsplit(endpoint)
    assert parts.hostname
    assert parts.port
    faults, ended = Faults(), threading.Event()
    handler = type("H", (Handler,), {"faults": faults, "server_behind": (parts.hostname, parts.port), "ended": ended})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", faults
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
