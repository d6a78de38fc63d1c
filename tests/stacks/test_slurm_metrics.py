"""A Slurm cluster whose controller collects metrics: the workspace, who may write to it, and what nodes get."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stacks.hyperpods import hyperpod, write
from tests.synthesis import Template, all_resources, assembly_in, resources, templates_of
from trainway.monitoring.rules import rule_document
from trainway.monitoring.slurm_scraping import slurm_scrape_document
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.network.endpoints import interface_endpoints
from trainway.spec.problems import SpecError

COLLECTED: dict[str, Any] = {"orchestrator": "hyperpod-slurm", "slurm": {"observability": True}}
DATABASE = {
    "endpoint": "slurm.cluster-abc.us-east-1.rds.amazonaws.com",
    "secret": "arn:aws:secretsmanager:us-east-1:111122223333:secret:slurm-AbCdEf",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("collected"), **COLLECTED)


@pytest.fixture(scope="module")
def templates(file: Path) -> dict[str, Template]:
    return templates_of(file)


def workspace(templates: Mapping[str, Template]) -> str:
    (found,) = resources(templates["cluster"], "AWS::APS::Workspace")
    return found


def writers(templates: Mapping[str, Template]) -> dict[str, Any]:
    """Return the resource of each statement that lets a role write metrics, by the policy's name."""
    found = {}
    for template in templates.values():
        for id, policy in resources(template, "AWS::IAM::Policy").items():
            for statement in policy["PolicyDocument"]["Statement"]:
                if any(each.startswith(("aps:", "*")) for each in _listed(statement["Action"])):
                    found[id] = (statement["Action"], statement["Resource"])
    return found


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def test_the_role_of_the_controller_writes_to_exactly_this_workspace_and_nothing_else_of_the_service(
    templates: dict[str, Template],
) -> None:
    ((id, found),) = writers(templates).items()
    assert id.startswith("ExecutionRole")
    assert found == ("aps:RemoteWrite", {"Fn::GetAtt": [workspace(templates), "Arn"]})


def test_with_a_database_of_accounts_only_the_role_of_the_controller_writes(tmp_path: Path) -> None:
    section = {"observability": True, "accounting_database": DATABASE}
    templates = templates_of(write(tmp_path, **COLLECTED | {"slurm": section}))
    (id,) = writers(templates)
    assert id.startswith("ControllerRole")
    groups = {each["InstanceGroupName"]: each for each in hyperpod(templates["cluster"])["InstanceGroups"]}
    assert "ControllerRole" in json.dumps(groups["controller"]["ExecutionRole"])
    assert "ControllerRole" not in json.dumps(groups["train"]["ExecutionRole"])


def test_the_alarms_are_in_the_workspace_and_go_to_the_topic(file: Path, templates: dict[str, Template]) -> None:
    (rules,) = resources(templates["cluster"], "AWS::APS::RuleGroupsNamespace").values()
    document = yaml.safe_load(rules["Data"])
    assert document == rule_document(load_platform(file), load_catalogue())
    names = {each["alert"] for each in document["groups"][0]["rules"]}
    assert {"NodeUnhealthy", "XidReplace", "GpuIdle", "TcpInsteadOfEfa", "ExporterBlind", "OutOfMemory"} <= names
    (made,) = resources(templates["cluster"], "AWS::APS::Workspace").values()
    assert "AlertsTopic" in json.dumps(made["AlertManagerDefinition"])
    (policy,) = resources(templates["observability"], "AWS::SNS::TopicPolicy").values()
    services = {json.dumps(each["Principal"]) for each in policy["PolicyDocument"]["Statement"]}
    assert '{"Service": "aps.amazonaws.com"}' in services


def test_the_controller_fetches_what_it_scrapes_and_the_delivery_says_where_it_writes(
    file: Path, templates: dict[str, Template]
) -> None:
    bundle = assembly_in(file) / "bundles/cluster"
    document = json.loads((bundle / "manifests/slurm-scraping.json").read_text())
    assert document == slurm_scrape_document(load_platform(file), load_catalogue())
    parameters = json.loads((bundle / "nodes/parameters.json").read_text())
    where = {"s3_uri": "${TRAINWAY_DOCUMENTS_S3_URI}/slurm-scraping.json", "region": "us-east-1"}
    assert parameters["slurm_scraping"] == where
    (project,) = resources(templates["cluster"], "AWS::CodeBuild::Project").values()
    variables = {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}
    assert workspace(templates) in json.dumps(variables["TRAINWAY_METRICS_ENDPOINT"])
    assert "https://aps-workspaces." in json.dumps(variables["TRAINWAY_METRICS_ENDPOINT"])


def test_the_hand_off_names_the_workspace(file: Path, templates: dict[str, Template]) -> None:
    (made,) = resources(templates["cluster"], "AWS::APS::Workspace").values()
    (document,) = (assembly_in(file) / "hand-off").glob("*.json")
    assert json.loads(document.read_text())["metrics_workspace"] == made["Alias"]


def test_a_closed_network_has_the_endpoint_of_workspaces_and_others_have_not(tmp_path: Path) -> None:
    def endpoints(**changes: Any) -> set[str]:
        return set(interface_endpoints(load_platform(write(tmp_path, **COLLECTED | changes)), load_catalogue()))

    uncollected = {"slurm": {}, "observability": {"metrics": "none"}}
    assert endpoints(network="closed") - endpoints(network="closed", **uncollected) == {"aps-workspaces"}
    assert "aps-workspaces" not in endpoints()


def test_the_supply_of_a_closed_network_has_the_program(tmp_path: Path) -> None:
    templates = templates_of(write(tmp_path, **COLLECTED, network="closed"))
    (supply,) = (
        json.dumps(each["Value"])
        for each in resources(templates["registry"], "AWS::SSM::Parameter").values()
        if each["Name"].endswith("/supply")
    )
    assert '\\"COLLECTOR\\":\\"true\\"' in supply


def test_without_metrics_there_is_no_workspace_and_the_controller_collects_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, **COLLECTED | {"slurm": {}, "observability": {"metrics": "none"}})
    templates = templates_of(file)
    assert not all_resources(templates, "AWS::APS::Workspace")
    assert writers(templates) == {}
    bundle = assembly_in(file) / "bundles/cluster"
    assert json.loads((bundle / "nodes/parameters.json").read_text())["slurm_scraping"] is None
    assert not (bundle / "manifests/slurm-scraping.json").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slurm": {"observability": True, "exporters": False}}, "no node has metrics to collect"),
        ({"hyperpod": {"observability": True}}, "write `observability: true` in `slurm`"),
        ({"orchestrator": "hyperpod-eks"}, "which has no Slurm"),
    ],
    ids=["without exporters", "the key of HyperPod's add-on", "under another orchestrator"],
)
def test_a_file_that_cannot_collect_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        load_platform(write(tmp_path, **COLLECTED | changes))
