"""A small tracking server of MLflow on this machine, which keeps its runs in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class MlflowServer:
    """The runs by their IDs, and the headers of the requests. It answers up to `most` requests, then with status 500.

    https://mlflow.org/docs/latest/rest-api.html (read 2026-12-01)
    """

    uri: str = ""
    most: int = 10_000
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    headers: list[dict[str, str]] = field(default_factory=list)

    def steps(self, metric: str) -> dict[str, list[int]]:
        """Return the steps of a metric, by the IDs of the runs."""
        return {
            name: [each["step"] for each in run["data"]["metrics"] if each["key"] == metric]
            for name, run in self.runs.items()
        }

    def answer(self, call: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a call of the API."""
        run = self.runs.get(str(asked.get("run_id")), {})
        if call == "runs/create":
            name = f"{len(self.runs):032x}"
            info = {"run_id": name, "run_uuid": name, "status": "RUNNING", "artifact_uri": "s3://a/b"}
            data = {"metrics": [], "tags": asked.get("tags", [])}
            self.runs[name] = run = {
                "info": {**info, **{key: asked[key] for key in ("experiment_id", "run_name")}},
                "data": data,
            }
        elif call == "runs/update":
            run["info"] |= {key: value for key, value in asked.items() if key in ("status", "run_name")}
        elif call == "runs/log-batch":
            run["data"]["metrics"] += asked.get("metrics", [])
        elif call == "runs/log-metric":
            run["data"]["metrics"].append(asked)
        if call.startswith("experiments/"):
            return {"experiment": {"experiment_id": "1", "name": "llamas", "lifecycle_stage": "active"}}
        return (
            {"runs": list(self.runs.values())} if call == "runs/search" else {"run": run, "run_info": run.get("info")}
        )


@contextmanager
def mlflow_server() -> Iterator[MlflowServer]:
    """Start a server, and end it."""
    server = MlflowServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = urlsplit(self.path)
            self._answer(path.path, {name: values[0] for name, values in parse_qs(path.query).items()})

        def do_POST(self) -> None:
            self._answer(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}"))

        def _answer(self, path: str, asked: dict[str, Any]) -> None:
            server.headers.append(dict(self.headers.items()))
            is_well = len(server.headers) <= server.most
            body = json.dumps(server.answer(path.partition("/mlflow/")[2], asked) if is_well else {}).encode()
            self.send_response(200 if is_well else 500)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        server.uri = f"http://127.0.0.1:{listening.server_port}"
        Thread(target=listening.serve_forever, daemon=True).start()
        yield server
        listening.shutdown()
