"""A cluster of EKS whose metrics an AWS managed collector collects: the collector, its workspace, and the add-ons."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.synthesis import Template, all_resources, resources, templates_of
from trainway.monitoring.rules import rule_document
from trainway.monitoring.scraping import scrape_document
from trainway.spec.cost.price import price_lines
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.prices import listed_price
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

PLATFORM: dict[str, Any] = {
    "name": "atlas",
    "region": "us-west-2",
    "zones": ["usw2-az2", "usw2-az1"],
    "orchestrator": "eks",
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 2}],
    "teams": [{"name": "research"}],
    "kubernetes": {"observability": True, "admins": ["arn:aws:iam::111122223333:role/Ada"]},
}


def write(directory: Path, **changes: Any) -> Path:
    file = directory / "platform.yaml"
    file.write_text(yaml.safe_dump(PLATFORM | changes))
    return file


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("collected"))


@pytest.fixture(scope="module")
def templates(file: Path) -> dict[str, Template]:
    return templates_of(file)


@pytest.fixture(scope="module")
def platform(file: Path) -> Platform:
    return load_platform(file)


def scraper(templates: Mapping[str, Template]) -> dict[str, Any]:
    (found,) = resources(templates["cluster"], "AWS::APS::Scraper").values()
    return found


def test_the_collector_scrapes_the_cluster_and_writes_to_the_workspace_of_the_stack(
    templates: dict[str, Template], platform: Platform
) -> None:
    found = scraper(templates)
    ((workspace, _),) = resources(templates["cluster"], "AWS::APS::Workspace").items()
    assert found["Destination"] == {"AmpConfiguration": {"WorkspaceArn": {"Fn::GetAtt": [workspace, "Arn"]}}}
    text = found["ScrapeConfiguration"]["ConfigurationBlob"]["Fn::Base64"]
    assert yaml.safe_load(text) == scrape_document(platform, load_catalogue())
    source = found["Source"]["EksConfiguration"]
    # Two subnets in two zones at least, and five at most.
    assert len(source["SubnetIds"]) == len(PLATFORM["zones"])
    nodes = json.dumps(list(all_resources(templates, "AWS::EC2::LaunchTemplate").values()))
    (group,) = source["SecurityGroupIds"]
    assert json.dumps(group) in nodes, "the nodes let in the members of the security group of their cluster"


def test_the_alarms_are_in_the_workspace_and_go_to_the_topic(
    templates: dict[str, Template], platform: Platform
) -> None:
    (rules,) = resources(templates["cluster"], "AWS::APS::RuleGroupsNamespace").values()
    document = yaml.safe_load(rules["Data"])
    assert document == rule_document(platform, load_catalogue())
    names = {each["alert"] for each in document["groups"][0]["rules"]}
    assert {"NodeUnhealthy", "XidReplace", "GpuIdle", "TcpInsteadOfEfa", "ExporterBlind", "RunHangs"} <= names
    (workspace,) = resources(templates["cluster"], "AWS::APS::Workspace").values()
    assert "AlertsTopic" in json.dumps(workspace["AlertManagerDefinition"])
    (policy,) = resources(templates["observability"], "AWS::SNS::TopicPolicy").values()
    services = {json.dumps(each["Principal"]) for each in policy["PolicyDocument"]["Statement"]}
    assert '{"Service": "aps.amazonaws.com"}' in services


def test_the_exporters_come_as_add_ons_after_the_system_nodes(templates: dict[str, Template]) -> None:
    control_plane = templates["control-plane"]["Resources"]
    (nodes,) = [id for id, each in control_plane.items() if each["Type"] == "AWS::EKS::Nodegroup"]
    waits = {
        each["Properties"]["AddonName"]: each.get("DependsOn", [])
        for each in control_plane.values()
        if each["Type"] == "AWS::EKS::Addon"
    }
    assert nodes in waits["prometheus-node-exporter"] and nodes in waits["kube-state-metrics"]


def test_no_role_of_the_platform_writes_metrics_or_enters_the_cluster_for_the_collector(
    templates: dict[str, Template],
) -> None:
    """AWS's service-linked role does both. EKS refuses access entries of others for it."""
    text = json.dumps(templates["cluster"])
    assert "aps:RemoteWrite" not in text
    assert "aps.amazonaws.com" not in json.dumps(list(all_resources(templates, "AWS::EKS::AccessEntry").values()))


def test_without_metrics_there_is_no_collector_no_workspace_and_no_exporter(tmp_path: Path) -> None:
    none = {"kubernetes": {"admins": PLATFORM["kubernetes"]["admins"]}, "observability": {"metrics": "none"}}
    templates = templates_of(write(tmp_path, **none))
    assert not all_resources(templates, "AWS::APS::Scraper")
    assert not all_resources(templates, "AWS::APS::Workspace")
    names = {each["AddonName"] for each in all_resources(templates, "AWS::EKS::Addon").values()}
    assert not names & {"prometheus-node-exporter", "kube-state-metrics"}


def test_the_plan_counts_the_hour_of_the_collector(platform: Platform) -> None:
    (line,) = [
        each for each in price_lines(platform, load_catalogue(), listed_price) if each.item.name == "metrics-collector"
    ]
    assert line.price is not None
    assert line.price.source.url == "https://aws.amazon.com/prometheus/pricing/"
    assert line.price.usd * 730 == Decimal("29.20")
