"""Who may do what in a platform's cluster, from its templates and the Kubernetes objects of its delivery.

EKS lets a principal in by an access entry, which gives it groups and access policies. What a group may do is in the
bindings of RBAC. Whether rules cover a request is decided by kubectl, which has Kubernetes' own code for it: `kubectl
auth reconcile --dry-run` prints the rules of a role that the cluster's role of that name does not cover.
https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html (read 2026-11-22)
https://kubernetes.io/docs/reference/kubectl/generated/kubectl_auth/kubectl_auth_reconcile/ (read 2026-11-22)
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.kubernetes_tools import tool
from tests.synthesis import Template, all_resources

RBAC = "rbac.authorization.k8s.io"
# "This access policy includes permissions that grant an IAM principal administrator access to a cluster": every verb of
# every resource of every group, and every URL that is no resource.
# https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html (read 2026-11-22)
ACCESS_POLICIES = {
    "AmazonEKSClusterAdminPolicy": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
}
Rule = dict[str, list[str]]


class Request(NamedTuple):
    """A verb on a resource, written `group/resource` or `group/resource/subresource`; no namespace is the cluster."""

    verb: str
    resource: str
    namespace: str | None = None

    def rule(self) -> Rule:
        """Return the smallest rule that allows the request."""
        group, _, resource = self.resource.partition("/")
        return {"apiGroups": [group], "resources": [resource], "verbs": [self.verb]}


@dataclass(frozen=True)
class Entry:
    """What access entries give: groups, and access policies for the whole cluster by their names."""

    groups: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()

    def __or__(self, other: Entry) -> Entry:
        return Entry(self.groups | other.groups, self.policies | other.policies)


@dataclass(frozen=True)
class LetIn:
    """Who is let into a cluster: people by their ARN, and services by the logical ID of their role."""

    people: dict[str, Entry]
    services: dict[str, tuple[str, Entry]]


def let_in(stacks: Mapping[str, Template]) -> LetIn:
    """Return who the access entries of a platform's templates let in, by themselves or by a role that they assume."""
    people, services = dict[str, Entry](), dict[str, tuple[str, Entry]]()
    roles = {name: each for (_, name), each in all_resources(stacks, "AWS::IAM::Role").items()}
    for properties in all_resources(stacks, "AWS::EKS::AccessEntry").values():
        entry, principal = _entry(properties), properties["PrincipalArn"]
        if isinstance(principal, str):
            people[principal] = people.get(principal, Entry()) | entry
            continue
        (role, _) = principal["Fn::GetAtt"]
        for statement in roles[role]["AssumeRolePolicyDocument"]["Statement"]:
            for person in _listed(statement["Principal"].get("AWS", [])):
                people[person] = people.get(person, Entry()) | entry
            for service in _listed(statement["Principal"].get("Service", [])):
                services[role] = (service, entry)
    return LetIn(people, services)


def _entry(properties: Mapping[str, Any]) -> Entry:
    policies = set()
    for each in properties.get("AccessPolicies", []):
        assert each["AccessScope"] == {"Type": "cluster"}, each
        (name,) = re.findall(r"cluster-access-policy/(\w+)", json.dumps(each["PolicyArn"]))
        policies.add(name)
    assert properties.get("Type", "STANDARD") == "STANDARD"
    return Entry(frozenset(properties.get("KubernetesGroups", [])), frozenset(policies))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def rules_of(entry: Entry, objects: Iterable[Mapping[str, Any]], namespace: str | None) -> list[Rule]:
    """Return the rules that an entry has in a namespace, or in the whole cluster, with these objects of RBAC."""
    objects = list(objects)
    rules = [rule for policy in sorted(entry.policies) for rule in ACCESS_POLICIES[policy]]
    for binding in objects:
        kind, where = binding["kind"], binding["metadata"].get("namespace")
        bound = kind == "ClusterRoleBinding" or (kind == "RoleBinding" and namespace is not None and where == namespace)
        subjects = {each["name"] for each in binding.get("subjects", []) if each["kind"] == "Group"} if bound else set()
        if not subjects & entry.groups:
            continue
        wanted = binding["roleRef"]
        (role,) = (
            each
            for each in objects
            if (each["kind"], each["metadata"]["name"]) == (wanted["kind"], wanted["name"])
            and (wanted["kind"] == "ClusterRole" or each["metadata"].get("namespace") == where)
        )
        rules += role["rules"]
    return rules


class Kubernetes:
    """A server with one cluster role, and kubectl, which compares other roles with it."""

    def __init__(self, url: str, directory: Path) -> None:
        self._url, self._directory = url, directory
        self.rules: list[Rule] = []

    def allowed(self, rules: list[Rule], requests: Iterable[Request]) -> set[Request]:
        """Return those of the requests that the rules cover, as kubectl says."""
        self.rules, asked = rules, list(requests)
        question, config = self._directory / "asked.yaml", self._directory / "kubeconfig"
        question.write_text(yaml.safe_dump(_cluster_role([each.rule() for each in asked])), encoding="utf-8")
        config.write_text("apiVersion: v1\nkind: Config\n", encoding="utf-8")
        command = [str(tool("kubectl")), f"--server={self._url}", f"--kubeconfig={config}"]
        command += ["auth", "reconcile", "--dry-run=client", f"--filename={question}"]
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, env={"HOME": str(self._directory), "PATH": ""}
        )
        assert ran.returncode == 0, ran.stderr
        assert f"clusterrole.{RBAC}/effective reconciled" in ran.stdout
        missing = set(re.findall(r"\{Verbs:\[(\S+)\] APIGroups:\[(\S*)\] Resources:\[(\S+)\]", ran.stderr))
        assert len(missing) == ran.stderr.count("{Verbs:"), ran.stderr
        return {each for each in asked if (each.verb, *each.resource.split("/", 1)) not in missing}


@contextmanager
def kubernetes(directory: Path) -> Iterator[Kubernetes]:
    """Serve a cluster role on loopback for as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = _answers(api.rules).get(self.path.partition("?")[0])
            content = json.dumps(answer).encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api = Kubernetes(f"http://127.0.0.1:{server.server_port}", directory)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _cluster_role(rules: list[Rule]) -> dict[str, Any]:
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "effective"}, "rules": rules}


def _answers(rules: list[Rule]) -> dict[str, Any]:
    """Return what the server says by the path of the request: what it serves, and its one role."""
    version = {"groupVersion": f"{RBAC}/v1", "version": "v1"}
    group = {"name": RBAC, "versions": [version], "preferredVersion": version}
    kind = {"name": "clusterroles", "singularName": "clusterrole", "namespaced": False, "kind": "ClusterRole"}
    return {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
        f"/apis/{RBAC}/v1": {
            "kind": "APIResourceList",
            "groupVersion": f"{RBAC}/v1",
            "resources": [kind | {"verbs": ["get", "update"]}],
        },
        f"/apis/{RBAC}/v1/clusterroles/effective": _cluster_role(rules),
    }
