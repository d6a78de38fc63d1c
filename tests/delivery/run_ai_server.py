"""A control plane of Run:ai over TLS that answers as its REST API documents.

Lists come in pages, and errors with a message. It refuses requests with a field that the documentation does not have.

https://run-ai-docs.nvidia.com/api/2.24 (read 2026-11-27)
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.lifecycle_scripts.authorities import authority, signed
from tests.manifests.platforms import platform_of
from trainway.spec.platform import Platform

Json = dict[str, Any]
CLUSTER = "71f69d83-ba66-4822-adf5-55ce55efd210"
SECRET = {
    "cluster_id": CLUSTER,
    "client_id": "trainway",
    "client_secret": "hidden-client-secret",
    "ngc_api_key": "hidden-ngc-key",
}
TOKEN, CLIENT_SECRET = "hidden-token", "hidden-cluster-secret"
# What no log, no argument, and no error may show.
HIDDEN = (SECRET["client_secret"], SECRET["ngc_api_key"], TOKEN, CLIENT_SECRET)
GROUPS = [
    {"name": "train", "instance_type": "p5.48xlarge", "count": 2, "max_count": 4},
    {"name": "data", "instance_type": "m7i.8xlarge", "count": 1},
]
RESEARCH = {"name": "research", "guarantee": {"p5.48xlarge": 3}}
OF_A_UNIT = {"description", "schedulingRules", "defaultNodePools", "nodeTypes", "resources"}
# What a request may have, and what it must have.
FIELDS = {
    "departments": (OF_A_UNIT | {"name", "clusterId"}, {"name", "clusterId"}),
    "projects": (
        OF_A_UNIT | {"name", "clusterId", "requestedNamespace", "enforceRunaiScheduler", "parentId"},
        {"name", "clusterId", "resources"},
    ),
    "node-pools": (
        {"name", "labelKey", "labelValue", "clusterId"},
        {"name", "labelKey", "labelValue", "clusterId"},
    ),
}
OF_AN_UPDATE = OF_A_UNIT | {"enforceRunaiScheduler"}


def platform_with(address: str, *teams: Any, orchestrator: str = "eks") -> Platform:
    kubernetes = {"run_ai": {"control_plane": address, "secret": "run-ai"}}
    hyperpod = {"task_governance": False}
    on_hyperpod = {"hyperpod": hyperpod} if orchestrator == "hyperpod-eks" else {}
    return platform_of(
        name="atlas",
        orchestrator=orchestrator,
        node_groups=GROUPS,
        teams=list(teams),
        kubernetes=kubernetes,
        **on_hyperpod,
    )


class Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server(ThreadingHTTPServer):
    """A stand-in for Run:ai's control plane, with its objects and the requests that it received."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"https://localhost:{self.server_port}"
        self.domain: str | None = "https://atlas.example.com"
        self.lists: dict[str, list[Json]] = {name: [] for name in FIELDS}
        self.requests: list[str] = []
        # What it answers instead, by the method and the path.
        self.instead: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        self.authority = Path()

    @property
    def writes(self) -> list[str]:
        """The requests other than GET, without those for tokens."""
        return [each for each in self.requests if not each.startswith("GET ") and not each.endswith("/token")]

    def has(self, name: str, what: str) -> Json:
        """Return the only object with the name `what` in the list `name`, for example the project `research`."""
        [found] = [each for each in self.lists[name] if each["name"] == what]
        return found

    def answer(self, method: str, path: str, query: Json, body: Any, token: str | None) -> tuple[int, Any]:
        match (method, *path.removeprefix("/api/v1/").replace("org-unit/", "").split("/")):
            case ("POST", "token"):
                login = {"grantType": "client_credentials", "clientId": "trainway"}
                if body != login | {"clientSecret": SECRET["client_secret"]}:
                    raise Refusal(401, "invalid client")
                return 200, {"accessToken": TOKEN, "expiresIn": 86400}
            case _ if token != f"Bearer {TOKEN}":
                raise Refusal(401, "no token")
            case ("GET", "clusters", identity, *rest):
                if identity != CLUSTER:
                    raise Refusal(404, "cluster not found")
                if rest:
                    assert query["version"] and query["remoteClusterUrl"] == [self.domain]
                    return 200, {"installationStr": "helm …", "clientSecret": CLIENT_SECRET}
                return 200, {"uuid": CLUSTER, "name": "atlas", "domain": self.domain}
            case ("GET", ("departments" | "projects" | "node-pools") as name):
                start, limit = int(query["offset"][0]), int(query["limit"][0])
                assert 1 <= limit <= 500
                page: Json = {name.replace("node-pools", "nodepools"): self.lists[name][start : start + limit]}
                return 200, page | ({"next": start + limit} if start + limit < len(self.lists[name]) else {})
            case ("POST", ("departments" | "projects" | "node-pools") as name):
                allowed, required = FIELDS[name]
                check(body, allowed, required)
                if any(each["name"] == body["name"] for each in self.lists[name]):
                    raise Refusal(409, f"{body['name']} exists")
                self.lists[name].append(body | {"id": str(len(self.lists[name]) + 100)})
                return 201, self.lists[name][-1]
            case ("PUT", ("departments" | "projects") as name, identity, *rest):
                [there] = [each for each in self.lists[name] if each["id"] == identity]
                changed = {"resources": body} if rest else body
                check(changed, OF_AN_UPDATE, {"resources"})
                # A field that the request does not have is emptied.
                there |= changed if rest else dict.fromkeys(OF_AN_UPDATE & there.keys()) | changed
                return 200, there["resources"] if rest else there
        raise Refusal(404, f"no {method} {path}")


def check(body: Json, allowed: set[str], required: set[str]) -> None:
    if unknown := body.keys() - allowed or required - body.keys():
        raise Refusal(400, f"unknown or missing: {', '.join(sorted(unknown))}")
    for each in body.get("resources", []):
        gpu = each["gpu"]
        if each["nodePool"].keys() != {"id", "name"} or gpu.keys() - {"deserved", "limit", "overQuotaWeight"}:
            raise Refusal(400, "wrong resources")
        if gpu.get("limit", 0) < -1 or not 1 <= gpu.get("overQuotaWeight", 1) <= 20:
            raise Refusal(400, "wrong numbers")


class Handler(BaseHTTPRequestHandler):
    server: Server

    def _handle(self) -> None:
        address = urlsplit(self.path)
        what = f"{self.command} {address.path}"
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(what)
        headers = {"Content-Type": "application/json"}
        if what in self.server.instead:
            status, answer, headers = self.server.instead[what]
        else:
            body = json.loads(text) if text else None
            try:
                status, content = self.server.answer(
                    self.command, address.path, parse_qs(address.query), body, self.headers.get("Authorization")
                )
            except Refusal as refusal:
                status, content = refusal.status, {"code": refusal.status, "message": str(refusal), "details": ""}
            answer = json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = _handle

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def control_plane(directory: Path) -> Iterator[Server]:
    """Run a stand-in for Run:ai's control plane, whose certificate the authority in the file `authority` has signed."""
    server = Server()
    server.authority = authority(directory)
    certificate = signed(server.authority, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
