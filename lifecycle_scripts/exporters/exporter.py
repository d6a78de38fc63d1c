"""Serve metrics to Prometheus: `exporter.py COLLECTOR ADDRESS PORT`. COLLECTOR is a module beside this one.

A collector has `collect()`, which returns families of samples, and `FRESH_SECONDS`, the time for which an answer is
reused, so that several scrapers cost a cluster's controller no more than one. The metric `trainway_collector_success`
shows a failure of the collector, and the exporter continues.
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
# Seconds after which a silent client no longer occupies a thread.
PATIENCE_SECONDS = 10


def escaped(text: str, *, quotes: bool) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def number(value: float) -> str:
    if math.isinf(value) or math.isnan(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def exposition(families: Iterable[Family]) -> str:
    """Return the families in Prometheus' text format."""
    lines = []
    for name, kind, about, samples in families:
        if samples:
            lines += [f"# HELP {name} {escaped(about, quotes=False)}", f"# TYPE {name} {kind}"]
        for labels, value in samples:
            pairs = ",".join(f'{key}="{escaped(text, quotes=True)}"' for key, text in labels.items())
            lines.append(f"{name}{{{pairs}}} {number(value)}" if pairs else f"{name} {number(value)}")
    return "".join(f"{line}\n" for line in lines)


def answers(collector: str, collect: Callable[[], list[Family]], fresh_seconds: float) -> Callable[[], bytes]:
    """Return a function that returns the text of an answer, one collection at a time."""
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
                # Whatever the error is, an answer that reports it is better than none.
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
    """Return a bound server that answers /metrics. Raises OSError."""

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
            """Do nothing, because scrapes are not logged."""

    return ThreadingHTTPServer((address, port), Handler)


def main() -> None:
    name, address, port = sys.argv[1:]
    module = importlib.import_module(name)
    server(answers(name, module.collect, module.FRESH_SECONDS), address, int(port)).serve_forever()


if __name__ == "__main__":
    main()
