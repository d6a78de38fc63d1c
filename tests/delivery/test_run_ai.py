"""Run:ai's control plane gets a project of each team, and no word of it shows a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.delivery.run_ai_server import CLUSTER, HIDDEN, RESEARCH, SECRET, Server, control_plane, platform_with
from tests.manifests.platforms import CATALOGUE
from tests.synthesis import ROOT
from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.run_ai_projects import run_ai_projects

PROJECTS, DEPARTMENTS, POOLS = "/api/v1/org-unit/projects", "/api/v1/org-unit/departments", "/api/v1/node-pools"
PRODUCT = {"name": "product", "borrow": False, "guarantee": {"p5.48xlarge": 1}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with control_plane(tmp_path / "certificates") as running:
        yield running


def run(server: Server, *words: str, secret: Any = SECRET, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run delivery/run_ai.py as the stage does, and check that no output contains a part of the secret."""
    done = subprocess.run(
        [sys.executable, ROOT / "delivery/run_ai.py", *words],
        input=json.dumps(secret),
        env={"PATH": os.environ["PATH"], "SSL_CERT_FILE": str(server.authority), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not any(each in done.stdout + done.stderr for each in HIDDEN)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def deploy(server: Server, tmp_path: Path) -> Any:
    """Return a function that runs the command `projects` for some teams and returns the lines of its output."""

    def deployed(*teams: Any, former: tuple[str, ...] = (), orchestrator: str = "eks") -> list[str]:
        file = tmp_path / "control_plane.json"
        settings = run_ai_projects(platform_with(server.address, *teams, orchestrator=orchestrator), CATALOGUE)
        file.write_text(json.dumps(settings))
        done = run(server, "projects", str(file), *former)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return deployed


def quotas(unit: dict[str, Any]) -> dict[str, Any]:
    return {each["nodePool"]["name"]: each["gpu"] for each in unit["resources"]}


def test_each_team_gets_a_project_with_the_gpus_of_its_nodes(server: Server, deploy: Any) -> None:
    said = deploy(RESEARCH, PRODUCT)
    assert said == [
        f"created the {each}" for each in ("node pool train", "department atlas", "project research", "project product")
    ]
    pool = server.has("node-pools", "train")
    assert (pool["labelKey"], pool["labelValue"], pool["clusterId"]) == (NODES_LABEL, "train", CLUSTER)
    department = server.has("departments", "atlas")
    assert quotas(department) == {"train": {"deserved": 32, "limit": -1}}
    research = server.has("projects", "research")
    assert quotas(research) == {"train": {"deserved": 24, "limit": -1, "overQuotaWeight": 10}}
    assert research["parentId"] == department["id"]
    assert research["requestedNamespace"] == "research" and research["enforceRunaiScheduler"] is True
    assert research["defaultNodePools"] == ["train", "default"]
    # Who does not borrow gets no more than the guarantee.
    assert quotas(server.has("projects", "product")) == {"train": {"deserved": 8, "limit": 8}}


def test_on_hyperpod_a_project_has_the_namespace_in_which_jobs_resume(server: Server, deploy: Any) -> None:
    deploy(RESEARCH, orchestrator="hyperpod-eks")
    assert server.has("projects", "research")["requestedNamespace"] == "hyperpod-research"


def test_a_second_deploy_changes_nothing(server: Server, deploy: Any) -> None:
    deploy(RESEARCH, PRODUCT)
    server.requests.clear()
    assert deploy(RESEARCH, PRODUCT) == []
    assert server.writes == []


def test_no_limit_may_be_null_in_an_answer(server: Server, deploy: Any) -> None:
    deploy(RESEARCH)
    server.has("projects", "research")["resources"][0]["gpu"]["limit"] = None
    assert deploy(RESEARCH) == []


def test_a_changed_guarantee_changes_that_project_alone_and_nothing_else_of_it(server: Server, deploy: Any) -> None:
    deploy(RESEARCH, PRODUCT)
    research = server.has("projects", "research")
    other_pool = {"nodePool": {"id": "9", "name": "lab"}, "gpu": {"deserved": 1}}
    research |= {"schedulingRules": {"trainingJobTimeLimitSeconds": 60}, "description": "ours"}
    research["resources"] = [other_pool, research["resources"][0] | {"cpu": {"deserved": 5}}]
    server.requests.clear()
    assert deploy(RESEARCH | {"guarantee": {"p5.48xlarge": 2}}, PRODUCT) == ["updated the project research"]
    assert server.writes == [f"PUT {PROJECTS}/{research['id']}"]
    assert quotas(research) == {"lab": {"deserved": 1}, "train": {"deserved": 16, "limit": -1, "overQuotaWeight": 10}}
    assert research["resources"][1]["cpu"] == {"deserved": 5}
    assert research["schedulingRules"] == {"trainingJobTimeLimitSeconds": 60}
    assert research["description"] == "ours" and research["enforceRunaiScheduler"] is True


def test_a_larger_group_raises_the_quota_of_the_department(server: Server, deploy: Any) -> None:
    deploy(RESEARCH)
    department = server.has("departments", "atlas")
    department["resources"][0]["gpu"]["deserved"] = 8
    assert deploy(RESEARCH) == ["updated the quota of the department atlas"]
    assert quotas(department)["train"]["deserved"] == 32


def test_the_project_of_a_former_team_loses_its_quota_and_is_not_deleted(server: Server, deploy: Any) -> None:
    deploy(RESEARCH, PRODUCT)
    server.requests.clear()
    (said,) = deploy(RESEARCH, former=("product", "research", "never-was"))
    assert said.startswith("the team product is not in the file any more: its project has no quota. Delete the project")
    product = server.has("projects", "product")
    assert quotas(product) == {"train": {"deserved": 0, "limit": 0}}
    assert server.writes == [f"PUT {PROJECTS}/{product['id']}/resources"]
    server.requests.clear()
    deploy(RESEARCH, former=("product", "research"))
    assert server.writes == []


def test_a_project_that_is_nobodys_former_team_is_left_alone(server: Server, deploy: Any) -> None:
    deploy(RESEARCH, PRODUCT)
    before = json.dumps(server.has("projects", "product"))
    deploy(RESEARCH)
    assert json.dumps(server.has("projects", "product")) == before


def test_projects_of_other_clusters_and_on_later_pages_are_told_apart(server: Server, deploy: Any) -> None:
    deploy(RESEARCH)
    for name, entries in server.lists.items():
        ours = entries[0]
        others = [ours | {"name": f"{name}-{at}", "id": f"x{at}", "clusterId": "another"} for at in range(250)]
        server.lists[name] = [ours | {"id": "of-another", "clusterId": "another"}, *others, ours]
    server.requests.clear()
    assert deploy(RESEARCH) == [] and server.writes == []
    assert server.requests.count(f"GET {PROJECTS}") == 3


def test_a_node_pool_without_a_node_group_is_reported(server: Server, deploy: Any) -> None:
    gone = {"name": "old", "labelKey": NODES_LABEL, "labelValue": "old", "clusterId": CLUSTER, "id": "1"}
    server.lists["node-pools"] = [gone, gone | {"name": "default", "labelKey": ""}]
    assert "the node pool old is that of no node group any more; delete it in Run:ai" in deploy(RESEARCH)


def failed(server: Server, tmp_path: Path, *, secret: Any = SECRET, **variables: str) -> tuple[int, str]:
    file = tmp_path / "control_plane.json"
    file.write_text(json.dumps(run_ai_projects(platform_with(server.address, RESEARCH), CATALOGUE)))
    done = run(server, "projects", str(file), secret=secret, **variables)
    return done.returncode, done.stderr


def test_a_project_with_another_namespace_is_refused(server: Server, deploy: Any, tmp_path: Path) -> None:
    deploy(RESEARCH)
    server.has("projects", "research")["status"] = {"namespace": "runai-research"}
    status, said = failed(server, tmp_path)
    assert status == 78
    assert "has the namespace runai-research, and the team's namespace is research. Delete the project" in said


def test_a_node_pool_of_other_nodes_is_refused(server: Server, tmp_path: Path) -> None:
    other = {"name": "train", "labelKey": "rack", "labelValue": "1", "clusterId": CLUSTER, "id": "1"}
    server.lists["node-pools"].append(other)
    status, said = failed(server, tmp_path)
    assert status == 78 and "has a node pool train of rack=1" in said


@pytest.mark.parametrize(
    ("request_", "answer", "status", "says"),
    [
        (
            f"GET {POOLS}",
            (403, b'{"message": "no\\u001b[2Jaccess"}'),
            78,
            "403: no [2Jaccess. Give the service account",
        ),
        (f"POST {PROJECTS}", (500, b"<html>"), 1, f"answers POST {PROJECTS} with 500"),
        (f"POST {PROJECTS}", (429, b"{}"), 1, "with 429"),
        (f"POST {DEPARTMENTS}", (409, b'{"message": "atlas exists"}'), 78, "with 409: atlas exists"),
        (f"GET {PROJECTS}", (200, b"<html>"), 78, "something that is not JSON: write the address of Run:ai's"),
        ("POST /api/v1/token", (200, b"{}"), 78, "to POST /api/v1/token has no accessToken"),
    ],
    ids=["no access", "server error", "too many", "conflict", "another server", "no token"],
)
def test_an_answer_that_is_an_error_becomes_a_sentence(
    server: Server, tmp_path: Path, request_: str, answer: tuple[int, bytes], status: int, says: str
) -> None:
    server.instead[request_] = (*answer, {})
    found, said = failed(server, tmp_path)
    assert found == status and said.startswith("error: ") and says in said and said.count("\n") == 1


def test_wrong_credentials_are_told_without_being_shown(server: Server, tmp_path: Path) -> None:
    status, said = failed(server, tmp_path, secret=SECRET | {"client_secret": "hidden-wrong"})
    assert status == 78 and "hidden-wrong" not in said
    assert "401: invalid client. Write client_id and client_secret of a service account into the secret" in said


@pytest.mark.parametrize(
    "value", [{}, [], SECRET | {"ngc_api_key": ""}, "hidden"], ids=["empty", "list", "one", "text"]
)
def test_a_secret_that_lacks_something_is_told_by_its_keys(server: Server, tmp_path: Path, value: Any) -> None:
    status, said = failed(server, tmp_path, secret=value)
    assert status == 78 and "ngc_api_key: write {" in said and "hidden" not in said
    assert server.requests == []


def test_the_token_goes_to_no_other_host(server: Server, tmp_path: Path) -> None:
    with control_plane(tmp_path / "other") as other:
        server.instead[f"GET {POOLS}"] = (302, b"", {"Location": f"{other.address}{POOLS}"})
        status, said = failed(server, tmp_path)
        assert status == 78 and "with 302" in said
        assert other.requests == []


def test_a_certificate_that_nobody_trusts_and_a_closed_way_are_told(server: Server, tmp_path: Path) -> None:
    status, said = failed(server, tmp_path, SSL_CERT_FILE="/dev/null")
    assert status == 1 and "cannot be reached" in said and "certificate verify failed" in said.lower()
    server.address = "https://localhost:9"
    status, said = failed(server, tmp_path)
    assert status == 1 and "Let the cluster stage and the nodes reach kubernetes.run_ai.control_plane" in said


def test_an_organizations_authority_is_trusted_by_run_ai_too(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "control_plane.json"
    file.write_text(json.dumps(run_ai_projects(platform_with(server.address, RESEARCH), CATALOGUE)))
    made = tmp_path / "made"
    done = run(server, "install", str(file), "2.25.10", str(made), AUTHORITIES=str(server.authority))
    assert done.returncode == 0, done.stderr
    assert json.loads((made / "values.json").read_text())["global"] == {"customCA": {"enabled": True}}
    trusted = json.loads((made / "objects.json").read_text())["items"][-1]
    assert trusted["metadata"]["name"] == "runai-ca-cert"
    assert trusted["stringData"]["runai-ca.pem"] == server.authority.read_text()
