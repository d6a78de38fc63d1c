"""Speaks to Run:ai's control plane by its REST API. The value of the platform's secret is on standard input.

`ngc-key`                          prints the key of NVIDIA NGC, which Run:ai's chart and images require
`install FILE VERSION DIRECTORY`   writes to DIRECTORY what the chart of this version requires: `values.json`, and with
                                   the namespace and its Secrets `objects.json`
`projects FILE [NAME...]`          creates and updates the node pools, the department, and the projects of FILE. A
                                   project with one of the NAMEs that is not in FILE is that of a former team, and loses
                                   its quota

FILE is `run_ai/control_plane.json` of the manifests. The secret is a JSON object with the keys of `KEYS`. Neither it
nor a token is in an argument, in the output, or in an error. The status is 78 for what stays wrong until somebody
changes it.

https://docs.nvidia.com/run-ai/self-hosted/v3.0/reference/rest-api/endpoints/organizations/projects/create-project
https://run-ai-docs.nvidia.com/api/2.24 (both read 2026-11-27)
"""

import base64
import http.client
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
KEYS = ("cluster_id", "client_id", "client_secret", "ngc_api_key")
# The exit status of a stage that a second attempt cannot mend (delivery/lib.sh).
REFUSED = 78
NAMESPACE = "runai"
# The Secret that the chart's `controlPlane.existingSecret` names (trainway/manifests/run_ai_values.py).
CLIENT_SECRET = "trainway-run-ai"
NODES_LABEL = "trainway.dev/nodes"
NO_LIMIT = -1
SECONDS = 30
LARGEST_PAGE = 100
# What an update of a project keeps: every other key that the request has.
KEPT = ("description", "schedulingRules", "nodeTypes", "enforceRunaiScheduler")


class RunAiError(Exception):
    """An error with a complete sentence as its message. `lasting` means that a retry fails in the same way."""

    def __init__(self, sentence: str, *, lasting: bool = True) -> None:
        super().__init__(sentence)
        self.lasting = lasting


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuse every redirect, because `urllib` would send the token to the other host."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, which makes `urllib` raise HTTPError."""


@dataclass(frozen=True)
class RunAiApi:
    """A client of Run:ai's REST API: the address of the control plane, and an access token."""

    address: str
    token: str = ""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call an operation, and return the JSON of its response, or None for an empty one. Raises RunAiError."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        try:
            with urllib.request.build_opener(NoRedirect).open(request, timeout=SECONDS) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise self._refusal(error, f"{method} {path.partition('?')[0]}") from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", error)
            raise RunAiError(
                f"Run:ai's control plane {self.address} cannot be reached ({why}). Let the cluster stage and the nodes "
                "reach kubernetes.run_ai.control_plane over HTTPS",
                lasting=False,
            ) from None
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise RunAiError(
                f"{self.address} answers {method} {path.partition('?')[0]} with something that is not JSON: write the "
                "address of Run:ai's control plane as kubernetes.run_ai.control_plane"
            ) from None

    def _refusal(self, error: urllib.error.HTTPError, what: str) -> RunAiError:
        try:
            said = json.loads(error.read()).get("message")
        except (ValueError, AttributeError, OSError):
            said = None
        why = f"{error.code}" + (f": {printable(str(said))}" if said else "")
        answer = f"Run:ai's control plane {self.address} answers {what} with {why}"
        if error.code == 401:
            return RunAiError(f"{answer}. Write client_id and client_secret of a service account into the secret")
        if error.code == 403:
            return RunAiError(f"{answer}. Give the service account an access rule with the role System administrator")
        return RunAiError(answer, lasting=error.code < 500 and error.code != 429)


def printable(text: str) -> str:
    """Return text of the control plane as one printable line for the log, with at most 300 characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:300]


def read_secret(text: str) -> Json:
    """Parse the value of the secret. Raises RunAiError, whose message has no part of the value."""
    try:
        value = json.loads(text)
        missing = [key for key in KEYS if not (isinstance(value[key], str) and value[key])]
    except (ValueError, KeyError, TypeError):
        missing = list(KEYS)
    if missing:
        example = ", ".join(f'"{key}": "…"' for key in KEYS)
        raise RunAiError(f"the value of the secret lacks {', '.join(missing)}: write {{{example}}} into it")
    return {key: value[key] for key in KEYS}


def logged_in(address: str, secret: Json) -> RunAiApi:
    """Return an API client with an access token of the service account."""
    login = {
        "grantType": "client_credentials",
        "clientId": secret["client_id"],
        "clientSecret": secret["client_secret"],
    }
    answer = RunAiApi(address).call("POST", "/api/v1/token", login)
    return RunAiApi(address, field_of(answer, "accessToken", "POST /api/v1/token"))


def field_of(answer: Any, key: str, what: str) -> Any:
    """Return a field of a response. Raises RunAiError if the response lacks it."""
    if isinstance(answer, dict) and answer.get(key):
        return answer[key]
    raise RunAiError(f"the answer of Run:ai's control plane to {what} has no {key}, which its documentation names")


def listed(plane: RunAiApi, path: str, key: str, cluster: str) -> list[Json]:
    """Return all entries of a paginated list that belong to this cluster."""
    found: list[Json] = []
    offset = 0
    while True:
        page = plane.call("GET", f"{path}?limit={LARGEST_PAGE}&offset={offset}") or {}
        found += [each for each in page.get(key) or [] if each.get("clusterId") == cluster]
        following = page.get("next")
        if not following or following <= offset:
            return found
        offset = following


def install(settings: Json, secret: Json, version: str, directory: Path) -> None:
    """Write the chart's values and the Kubernetes Secrets, with the cluster's URL and client secret from the API."""
    plane, cluster = logged_in(settings["control_plane"], secret), secret["cluster_id"]
    path = f"/api/v1/clusters/{urllib.parse.quote(cluster, safe='')}"
    known = plane.call("GET", path)
    if not (url := (known or {}).get("domain")):
        raise RunAiError(
            f"the cluster {cluster} has no URL in Run:ai: write it there, for example https://atlas.example.com"
        )
    query = urllib.parse.urlencode({"version": version, "remoteClusterUrl": url})
    told = plane.call("GET", f"{path}/cluster-install-info?{query}")
    client_secret = field_of(told, "clientSecret", f"GET {path}/cluster-install-info")
    values: Json = {"cluster": {"uid": cluster, "url": url}}
    secrets = [
        kubernetes_secret(CLIENT_SECRET, {"clientSecret": client_secret}),
        {
            **kubernetes_secret("runai-reg-creds", {".dockerconfigjson": registry_login(secret["ngc_api_key"])}),
            "type": "kubernetes.io/dockerconfigjson",
        },
    ]
    if authorities := os.environ.get("AUTHORITIES"):
        values["global"] = {"customCA": {"enabled": True}}
        trusted = kubernetes_secret("runai-ca-cert", {"runai-ca.pem": Path(authorities).read_text()})
        trusted["metadata"]["labels"] = {"run.ai/cluster-wide": "true", "run.ai/name": "runai-ca-cert"}
        secrets.append(trusted)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    objects = {"apiVersion": "v1", "kind": "List", "items": [namespace, *secrets]}
    directory.mkdir(mode=0o700)
    (directory / "values.json").write_text(json.dumps(values))
    (directory / "objects.json").write_text(json.dumps(objects))


def kubernetes_secret(name: str, data: dict[str, str]) -> Json:
    """Return the manifest of a Kubernetes Secret in the namespace `runai`."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def registry_login(key: str) -> str:
    """Return the Docker configuration with which the kubelet logs in to nvcr.io, from an NGC API key."""
    user = "$oauthtoken"
    auth = base64.b64encode(f"{user}:{key}".encode()).decode()
    return json.dumps({"auths": {"nvcr.io": {"username": user, "password": key, "auth": auth}}})


def share(settings: Json, secret: Json, names: list[str]) -> None:
    """Create and update the node pools, the department, and the projects in Run:ai's control plane."""
    plane, cluster = logged_in(settings["control_plane"], secret), secret["cluster_id"]
    pools = share_pools(plane, cluster, settings["node_pools"])
    wanted = settings["department"]
    found = {each["name"]: each for each in listed(plane, "/api/v1/org-unit/departments", "departments", cluster)}
    department = found.get(wanted["name"])
    if department is None:
        new = {"name": wanted["name"], "clusterId": cluster, "resources": resources(wanted["quotas"], pools, [])}
        department = plane.call("POST", "/api/v1/org-unit/departments", new)
        print(f"created the department {wanted['name']}")
    elif not has_quotas(department, wanted["quotas"], pools):
        path = f"/api/v1/org-unit/departments/{department['id']}/resources"
        plane.call("PUT", path, resources(wanted["quotas"], pools, department.get("resources") or []))
        print(f"updated the quota of the department {wanted['name']}")
    projects = {each["name"]: each for each in listed(plane, "/api/v1/org-unit/projects", "projects", cluster)}
    for project in settings["projects"]:
        parent = field_of(department, "id", "POST /api/v1/org-unit/departments")
        share_project(plane, cluster, parent, project, projects.get(project["name"]), pools)
    current = {project["name"] for project in settings["projects"]}
    for name in sorted(set(names) & projects.keys() - current):
        end_project(plane, projects[name], wanted["quotas"], pools)


def share_pools(plane: RunAiApi, cluster: str, wanted: list[Json]) -> dict[str, str]:
    """Create the missing node pools in Run:ai, and return the IDs of all node pools of the platform by name."""
    found = {each["name"]: each for each in listed(plane, "/api/v1/node-pools", "nodepools", cluster)}
    for pool in wanted:
        there = found.get(pool["name"])
        if there is None:
            found[pool["name"]] = plane.call("POST", "/api/v1/node-pools", {**pool, "clusterId": cluster})
            print(f"created the node pool {pool['name']}")
        elif any(there.get(key) != value for key, value in pool.items()):
            raise RunAiError(
                f"Run:ai's cluster has a node pool {pool['name']} of {there.get('labelKey')}="
                f"{there.get('labelValue')}, and the platform needs one of this name for its node group. Delete the "
                "node pool or rename the group"
            )
    names = [pool["name"] for pool in wanted]
    for name, pool in found.items():
        if pool.get("labelKey") == NODES_LABEL and name not in names:
            print(f"the node pool {name} is that of no node group any more; delete it in Run:ai")
    return {name: str(field_of(found[name], "id", "POST /api/v1/node-pools")) for name in names}


def share_project(
    plane: RunAiApi, cluster: str, parent: str, wanted: Json, there: Json | None, pools: dict[str, str]
) -> None:
    """Create the project of a team in Run:ai, or update its GPU quota and node pools."""
    name, quotas = wanted["name"], wanted["quotas"]
    if there is None:
        new = {
            "name": name,
            "clusterId": cluster,
            "parentId": parent,
            "requestedNamespace": wanted["namespace"],
            "enforceRunaiScheduler": True,
            "defaultNodePools": wanted["default_node_pools"],
            "resources": resources(quotas, pools, []),
        }
        plane.call("POST", "/api/v1/org-unit/projects", new)
        print(f"created the project {name}")
        return
    namespace = (there.get("status") or {}).get("namespace") or there.get("requestedNamespace")
    if namespace and namespace != wanted["namespace"]:
        raise RunAiError(
            f"the project {name} of Run:ai has the namespace {namespace}, and the team's namespace is "
            f"{wanted['namespace']}. Delete the project in Run:ai, and deploy again"
        )
    if not has_quotas(there, quotas, pools) or there.get("defaultNodePools") != wanted["default_node_pools"]:
        kept = {key: there[key] for key in KEPT if there.get(key) is not None}
        changed = {
            "resources": resources(quotas, pools, there.get("resources") or []),
            "defaultNodePools": wanted["default_node_pools"],
        }
        plane.call("PUT", f"/api/v1/org-unit/projects/{there['id']}", {**kept, **changed})
        print(f"updated the project {name}")


def end_project(plane: RunAiApi, project: Json, pool_quotas: Json, pools: dict[str, str]) -> None:
    """Set the quota of a former team's project to 0. A deletion would end the workloads of the project."""
    nothing = {pool: {"deserved": 0, "limit": 0} for pool in pool_quotas}
    if not has_quotas(project, nothing, pools):
        changed = resources(nothing, pools, project.get("resources") or [])
        plane.call("PUT", f"/api/v1/org-unit/projects/{project['id']}/resources", changed)
    print(
        f"the team {project['name']} is not in the file any more: its project has no quota. Delete the project "
        "in Run:ai"
    )


def gpus_by_pool(unit: Json) -> dict[str, Json]:
    """Return the GPU quotas of a department or a project by node pool ID."""
    rows = [each for each in unit.get("resources") or [] if each.get("nodePool")]
    return {str(each["nodePool"]["id"]): each.get("gpu") or {} for each in rows}


def has_quotas(unit: Json, quotas: Json, pools: dict[str, str]) -> bool:
    """Return whether a department or a project has these GPU quotas. An unlimited quota is -1 or None in a response."""
    there = gpus_by_pool(unit)

    def same(pool: str, key: str, value: int) -> bool:
        found = there.get(pools[pool], {}).get(key)
        return (NO_LIMIT if key == "limit" and found is None else found) == value

    return all(same(pool, key, value) for pool, quota in quotas.items() for key, value in quota.items())


def resources(quotas: Json, pools: dict[str, str], before: list[Json]) -> list[Json]:
    """Return the current resources of a department or a project, with the GPU quotas of the platform's node pools."""
    ours = {pools[pool]: (pool, quota) for pool, quota in quotas.items()}
    old = {str(each["nodePool"]["id"]): each for each in before if each.get("nodePool")}
    kept = [each for each in before if str((each.get("nodePool") or {}).get("id")) not in ours]
    new = [
        {
            **old.get(identity, {}),
            "nodePool": {"id": identity, "name": pool},
            "gpu": {**(old.get(identity, {}).get("gpu") or {}), **quota},
        }
        for identity, (pool, quota) in ours.items()
    ]
    return [*kept, *new]


def main(arguments: list[str]) -> int:
    """Run one of the three commands, and return the exit status."""
    try:
        secret = read_secret(sys.stdin.read())
        match arguments:
            case ["ngc-key"]:
                sys.stdout.write(secret["ngc_api_key"])
            case ["install", file, version, directory]:
                install(json.loads(Path(file).read_text()), secret, version, Path(directory))
            case ["projects", file, *names]:
                share(json.loads(Path(file).read_text()), secret, names)
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except RunAiError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED if error.lasting else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
