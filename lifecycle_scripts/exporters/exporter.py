"""Answers Prometheus: `exporter.py COLLECTOR ADDRESS PORT`, where the collector is a module beside this one.

A collector has `collect()`, which returns families of samples, and `FRESH_SECONDS`, for how long an answer is given
again without asking anew: several who scrape cost a cluster's controller no more than one. One that fails is seen in
`trainway_collector_success`, and the exporter goes on.
"""

from __future__ import annotations

import importlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Name, type, help, and samples of labels and a value.
Family = tuple[str, str, str, list[tuple[dict[str, str], float]]]

# https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md (read 2026-11-22)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# A client that says nothing holds a thread for no longer, in seconds.
PATIENCE_SECONDS = 10


def escaped(text: str, *, quotes: bool) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def number(value: float) -> str:
    if math.isinf(value) or math.isnan(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def exposition(families: Iterable[Family]) -> str:
    """Returns the families in Prometheus' text format."""
    lines = []
    for name, kind, about, samples in families:
        if samples:
            lines += [f"# HELP {name} {escaped(about, quotes=False)}", f"# TYPE {name} {kind}"]
        for labels, value in samples:
            pairs = ",".join(f'{key}="{escaped(text, quotes=True)}"' for key, text in labels.items())
            lines.append(f"{name}{{{pairs}}} {number(value)}" if pairs else f"{name} {number(value)}")
    return "".join(f"{line}\n" for line in lines)


def answers(collector: str, collect: Callable[[], list[Family]], fresh_seconds: float) -> Callable[[], bytes]:
    """Returns what gives the text of an answer, one collection at a time."""
    lock, last, text = threading.Lock(), -math.inf, b""

    def answer() -> bytes:
        nonlocal last, text
        with lock:
            if time.monotonic() - last < fresh_seconds:
                return text
            began, families, success = time.monotonic(), [], 0.0
            try:
                families, success = collect(), 1.0
            except Exception as error:
                # Whatever it is, an answer that says so is worth more than none.
                print(f"{collector}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            labels = {"collector": collector}
            families += [
                ("trainway_collector_success", "gauge", "Whether the collector succeeded.", [(labels, success)]),
                (
                    "trainway_collector_duration_seconds",
                    "gauge",
                    "How long the collector took.",
                    [(labels, time.monotonic() - began)],
                ),
            ]
            text, last = exposition(families).encode(), time.monotonic()
            return text

    return answer


def server(answer: Callable[[], bytes], address: str, port: int) -> ThreadingHTTPServer:
    """Returns a server that is bound and answers /metrics; raises OSError."""

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE_SECONDS

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "the metrics are at /metrics")
                return
            body = answer()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """A scrape is no event."""

    return ThreadingHTTPServer((address, port), Handler)


def main() -> None:
    name, address, port = sys.argv[1:]
    module = importlib.import_module(name)
    server(answers(name, module.collect, module.FRESH_SECONDS), address, int(port)).serve_forever()


if __name__ == "__main__":
    main()
