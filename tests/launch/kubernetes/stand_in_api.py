"""An API server that answers kubectl: it keeps what it is given, and runs nothing. What is refused, a test says.

https://kubernetes.io/docs/reference/using-api/api-concepts/ (read 2026-11-21)
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

# By group and version, what is there: plural, kind. A cluster of the platform's, with Trainer and Kueue.
GROUPS: dict[str, list[tuple[str, str]]] = {
    "v1": [("configmaps", "ConfigMap"), ("pods", "Pod"), ("secrets", "Secret")],
    "batch/v1": [("jobs", "Job")],
    "trainer.kubeflow.org/v1alpha1": [("trainingruntimes", "TrainingRuntime"), ("trainjobs", "TrainJob")],
    "kueue.x-k8s.io/v1beta2": [("workloads", "Workload")],
    "authorization.k8s.io/v1": [("selfsubjectaccessreviews", "SelfSubjectAccessReview")],
    "authentication.k8s.io/v1": [("selfsubjectreviews", "SelfSubjectReview")],
}
Object = dict[str, Any]
_MOMENT = re.compile(r"(?:@(?P<moment>\d+) )?(?P<text>.*)")
# The age of the first line of a log.
NOW_SECONDS = 100


class Api:
    """What the server has, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.objects: dict[tuple[str, str], Object] = {}
        self.logs: dict[str, str] = {}
        self.metrics: dict[str, str] = {}
        """Answers of exporters in pods through the API server, by pod and port, for example `pod:9464`."""
        self.asked: list[str] = []
        self.refusals: dict[str, str] = {}
        """By kind, what an admission webhook says against it."""
        self.hidden: set[str] = set()
        """Paths that the caller may not read, for example `/api/v1/pods`."""
        self.may_open_a_shell = True
        self.user: Object = {"username": "arn:aws:iam::111122223333:user/ada"}
        """Who asks, as the API server's authentication says."""

    def put(self, plural: str, *objects: Object) -> None:
        """Makes objects as a controller would."""
        for each in objects:
            self.objects[plural, each["metadata"]["name"]] = each

    def kubeconfig(self, path: Path, cluster: str, context: str = "mine") -> Path:
        """A kubeconfig with one context for the server, whose cluster has that name."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster, "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {"token": "none"}}],
            "contexts": [{"name": context, "context": {"cluster": cluster, "user": "me"}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path


@contextmanager
def serving() -> Iterator[Api]:
    """The server on loopback, for as long as the block lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    api = Api(f"http://127.0.0.1:{server.server_port}")
    server.api = api  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def api(self) -> Api:
        return self.server.api  # type: ignore[attr-defined]

    def do_GET(self) -> None:
        path, query, plural, name, part = self._place()
        if path == "/version":
            return self._answer(200, {"major": "1", "minor": "37", "gitVersion": "v1.37.1"})
        if path in ("/api", "/apis") or path.removeprefix("/api/").removeprefix("/apis/") in GROUPS:
            return self._answer(200, _discovery(path))
        if path.startswith("/openapi/v3"):
            return self._answer(200, _openapi(path))
        if part == "log":
            return self._text(_log(self.api.logs.get(name, ""), query))
        if part == "proxy" and name in self.api.metrics:
            return self._text(self.api.metrics[name])
        if path in self.api.hidden:
            return self._status(403, "Forbidden", f'{plural} is forbidden: User "ada" cannot list resource "{plural}"')
        if plural and name:
            found = self.api.objects.get((plural, name))
            return self._answer(200, found) if found else self._status(404, "NotFound", f'{plural} "{name}" not found')
        if plural:
            listed = self._selected(plural, query, path.partition("/namespaces/")[2].partition("/")[0])
            return self._answer(200, {"kind": "List", "apiVersion": "v1", "items": listed})
        return self._status(404, "NotFound", "the server could not find the requested resource")

    def do_POST(self) -> None:
        # What is asked this way: who this person is, and whether this person may open a shell.
        self._content()
        if self.path.startswith("/apis/authentication.k8s.io/"):
            asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            return self._answer(201, asked | {"status": {"userInfo": self.api.user}})
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        return self._answer(201, review | {"spec": {}, "status": {"allowed": self.api.may_open_a_shell}})

    def do_PATCH(self) -> None:
        _, query, plural, name, _ = self._place()
        document, before = self._body(), self.api.objects.get((plural, name))
        if "apply" not in self.headers["Content-Type"]:
            assert before is not None
            before["metadata"] |= document["metadata"]
            self._answer(200, before)
        elif said := self.api.refusals.get(document["kind"]) or self._trainer_says(document):
            self._status(403, "Forbidden", f"admission webhook denied the request: {said}")
        else:
            document["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1"}
            if "dryRun" not in query:
                self.api.objects[plural, name] = document
            self._answer(200 if before else 201, document)

    def _trainer_says(self, document: Object) -> str:
        """What Trainer's webhook says against a TrainJob, also in a dry run.

        https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/core/trainingruntime.go (ValidateObjects, read
        2026-11-22)
        """
        if document["kind"] != "TrainJob" or ("trainingruntimes", document["spec"]["runtimeRef"]["name"]) in (
            self.api.objects
        ):
            return ""
        return "specified trainingRuntime must be created before the TrainJob is created"

    def do_DELETE(self) -> None:
        _, _, plural, name, _ = self._place()
        assert b"Foreground" in self._content()
        if (plural, name) not in self.api.objects:
            return self._status(404, "NotFound", f'{plural} "{name}" not found')
        document = self.api.objects[plural, name]
        document["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
        if plural in ("configmaps", "trainingruntimes") or not any(kind == "pods" for kind, _ in self.api.objects):
            del self.api.objects[plural, name]
        return self._answer(200, document)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args

    def _place(self) -> tuple[str, dict[str, list[str]], str, str, str]:
        """Path, query, plural, name and subresource of the request."""
        parts = urlsplit(self.path)
        words = parts.path.strip("/").split("/")
        self.api.asked.append(f"{self.command} {self.path}")
        # The path of a list over all namespaces contains no namespace.
        after = words[words.index("namespaces") + 2 :] if "namespaces" in words else words[-1:]
        plural, name, part = (*after, "", "", "")[:3]
        return parts.path, parse_qs(parts.query), plural, name, part

    def _selected(self, plural: str, query: dict[str, list[str]], namespace: str) -> list[Object]:
        terms = [each for text in query.get("labelSelector", ()) for each in text.split(",")]
        wanted, there = (
            dict(each.split("=") for each in terms if "=" in each),
            {each for each in terms if "=" not in each},
        )
        fields = query.get("fieldSelector", ())
        (named, *_) = [text.removeprefix("metadata.name=") for text in fields if text.startswith("metadata")] or [""]
        found = [(name, each) for (kind, name), each in self.api.objects.items() if kind == plural]
        objects = [each for name, each in found if named in ("", name)]
        if namespace:
            # An object that a test creates without a namespace is in every namespace.
            objects = [each for each in objects if each["metadata"].get("namespace", namespace) == namespace]
        labels = [(each, each["metadata"].get("labels", {})) for each in objects]
        return [each for each, has in labels if wanted.items() <= has.items() and there <= has.keys()]

    def _content(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _body(self) -> Any:
        # kubectl sends JSON, even if the content type is YAML.
        return json.loads(self._content())

    def _status(self, code: int, reason: str, message: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
        self._answer(code, status | {"code": code})

    def _answer(self, code: int, document: Any) -> None:
        self._send(code, "application/json", json.dumps(document).encode())

    def _text(self, text: str) -> None:
        self._send(200, "text/plain", text.encode())

    def _send(self, code: int, content_type: str, content: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _openapi(path: str) -> Object:
    """As much of it as kubectl looks at: that the server itself validates what it is sent, and can only try it."""
    urls = {f"{'apis' if '/' in name else 'api'}/{name}": name for name in GROUPS}
    if path == "/openapi/v3":
        return {"paths": {url: {"serverRelativeURL": f"/openapi/v3/{url}?hash=0"} for url in urls}}
    name = urls[path.removeprefix("/openapi/v3/")]
    group, _, version = name.rpartition("/")
    parameters = [{"name": each, "in": "query"} for each in ("dryRun", "fieldValidation")]
    operations = {
        f"/{kind}": {
            "patch": {
                "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
                "parameters": parameters,
            }
        }
        for _, kind in [*GROUPS[name], ("namespaces", "Namespace")]
    }
    return {"openapi": "3.0.0", "info": {"title": "", "version": ""}, "paths": operations}


def _discovery(path: str) -> Object:
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = [name.split("/") for name in GROUPS if "/" in name]
        versions = {group: {"groupVersion": f"{group}/{version}", "version": version} for group, version in groups}
        listed = [{"name": name, "versions": [each], "preferredVersion": each} for name, each in versions.items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    name = path.removeprefix("/api/").removeprefix("/apis/")
    verbs = ["get", "list", "create", "patch", "delete", "watch"]
    resources = [
        {"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": verbs}
        for plural, kind in GROUPS[name]
    ]
    return {"kind": "APIResourceList", "groupVersion": name, "resources": resources}


def _log(text: str, query: dict[str, list[str]]) -> str:
    """Return the log of a container as it is asked for. A line `@N text` was written N seconds after the first."""
    timed = [_MOMENT.match(line) for line in text.splitlines()]
    lines = [(int(each["moment"] or 0), each["text"]) for each in timed if each]
    if "sinceSeconds" in query:
        lines = [each for each in lines if each[0] >= NOW_SECONDS - int(query["sinceSeconds"][0])]
    if "tailLines" in query:
        lines = lines[max(0, len(lines) - int(query["tailLines"][0])) :]
    shows_times = query.get("timestamps") == ["true"]
    start = datetime(2026, 11, 22, 10, tzinfo=UTC)
    return "".join(
        f"{f'{start + timedelta(seconds=moment):%Y-%m-%dT%H:%M:%S}.5Z ' if shows_times else ''}{line}\n"
        for moment, line in lines
    )
