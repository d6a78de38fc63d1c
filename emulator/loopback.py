"""Answers the API calls that the emulator makes to itself, in its own process and without a socket.

A deployment calls the emulated services for every resource, as any client would. botocore builds, signs, and parses
these calls as usual. Only the way between the two is left out: a connection, a thread, and a second HTTP parser.
"""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlsplit

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def answer_calls_of(session: Any, application: Wsgi) -> None:
    """Let a WSGI application answer every call of a boto3 session's clients."""

    def answer(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        return call(application, request)

    # botocore sends a request only if no handler of this event returns a response.
    session.events.register("before-send", answer)


def call(application: Wsgi, request: AWSPreparedRequest) -> AWSResponse:
    """Return the application's response to a request of botocore, and status 500 if the application raises."""
    from botocore.awsrequest import AWSResponse

    status, headers = 500, dict[str, str]()

    def start_response(line: str, listed: list[tuple[str, str]], *_: Any) -> None:
        nonlocal status
        status = int(line.partition(" ")[0])
        headers.update(listed)

    try:
        body = b"".join(application(environ_of(request), start_response))
    except Exception:
        traceback.print_exc()
        status, body = 500, b""
    return AWSResponse(request.url, status, headers, _Raw(body))  # type: ignore[arg-type] # any mapping will do


def environ_of(request: AWSPreparedRequest) -> dict[str, Any]:
    """Return a request as PEP 3333 describes it (https://peps.python.org/pep-3333/, read 2026-11-23)."""
    url, body = urlsplit(request.url), request.body or b""
    if hasattr(body, "read"):
        body = body.read()
    body = body.encode() if isinstance(body, str) else bytes(body)
    environ: dict[str, Any] = {
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": url.scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(url.path or "/").decode("latin1"),
        "QUERY_STRING": url.query,
        "RAW_URI": f"{url.path or '/'}?{url.query}" if url.query else url.path or "/",
        "REMOTE_ADDR": "127.0.0.1",
        "SERVER_NAME": url.hostname,
        "SERVER_PORT": str(url.port or 80),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": url.netloc,
    }
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        text = value.decode("latin1") if isinstance(value, bytes) else str(value)
        # The body is here as a whole.
        if key != "TRANSFER_ENCODING":
            environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = text
    return environ | {"CONTENT_LENGTH": str(len(body))}


class _Raw(io.BytesIO):
    """A body with what botocore uses of urllib3's response."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()
