"""An organization's network on loopback: an HTTPS server that its own authority signed, behind a proxy."""

from __future__ import annotations

import base64
import contextlib
import http.server
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lifecycle_scripts.authorities import authority, signed

# A name that no resolver knows, so that only the proxy leads to it.
HOST = "packages.corp.invalid"


@dataclass
class Organization:
    """The proxy's address, the index behind it, the certificate of the authority, and what went through the proxy."""

    proxy: str
    url: str
    certificate: Path
    connected: list[str] = field(default_factory=list)
    logins: set[str] = field(default_factory=set)


@contextlib.contextmanager
def organization(site: Path, directory: Path) -> Iterator[Organization]:
    """Serve a site below https://packages.corp.invalid, through a proxy alone."""
    certificate = authority(directory, "Corp Root")
    server_certificate = signed(certificate, HOST)
    made = Organization("", "", certificate)

    class Pages(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(site))

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            if login := self.headers.get("Authorization"):
                made.logins.add(base64.b64decode(login.partition(" ")[2]).decode())
            super().do_GET()

    class Proxy(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_CONNECT(self) -> None:
            made.connected.append(self.path)
            with socket.create_connection(("127.0.0.1", pages.server_address[1])) as there:
                self.send_response(200)
                self.end_headers()
                _pass_on(self.connection, there)

    with contextlib.ExitStack() as stack:
        pages, proxy = (stack.enter_context(_server(handler)) for handler in (Pages, Proxy))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server_certificate, server_certificate.with_suffix(".key"))
        pages.socket = context.wrap_socket(pages.socket, server_side=True)
        for server in (pages, proxy):
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        made.proxy, made.url = f"http://127.0.0.1:{proxy.server_address[1]}", f"https://{HOST}"
        yield made


def _server(handler: type[http.server.BaseHTTPRequestHandler]) -> http.server.ThreadingHTTPServer:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    return server


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes between two connections until one ends."""
    ends = {one: other, other: one}
    while True:
        ready = select.select(list(ends), [], [], 30)[0]
        if not ready:
            return
        for end in ready:
            data = end.recv(65536)
            if not data:
                return
            ends[end].sendall(data)
