"""The Kubernetes API answers inside the VPC and to the public ranges of the file, and builds need no public range."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.representatives import with_representatives
from tests.stacks.changes import synthesized
from tests.synthesis import EXAMPLES, Template, all_resources, resources, templates_of
from trainway.spec.loader import load_platform

FILES = {file.stem: file for file in EXAMPLES if "slurm" not in file.stem}


def access(stacks: dict[str, Template]) -> dict[str, Any]:
    """Return the properties of the endpoint. An update must name each that the last template had."""
    (cluster,) = all_resources(stacks, "AWS::EKS::Cluster").values()
    return {name: value for name, value in cluster["ResourcesVpcConfig"].items() if name != "SubnetIds"}


def answers(*ranges: str) -> dict[str, Any]:
    return {"EndpointPrivateAccess": True, "EndpointPublicAccess": bool(ranges), "PublicAccessCidrs": [*ranges]}


@pytest.mark.parametrize("name", with_representatives(FILES, ["platform", "eks-p5"]))
def test_the_endpoint_answers_inside_the_vpc_and_to_the_ranges_that_the_file_lists(name: str) -> None:
    endpoint = load_platform(FILES[name]).kubernetes_or_default.endpoint
    assert access(templates_of(FILES[name])) == answers(*map(str, endpoint.public_to if endpoint else ()))


def test_the_default_is_private_and_an_example_shows_the_other() -> None:
    assert access(templates_of(FILES["platform"])) == answers()
    assert access(templates_of(FILES["eks-p5"])) == answers("198.51.100.0/24")


def test_another_endpoint_changes_nothing_but_the_endpoint(tmp_path: Path) -> None:
    """No build, no permission, and no subnet: everybody can be let in only if somebody writes it."""
    before = templates_of(FILES["eks-p5"])
    after = synthesized(tmp_path, change={"kubernetes": {"endpoint": {"public_to": ["0.0.0.0/0"]}}})
    assert access(after) == answers("0.0.0.0/0")
    for stacks in (before, after):
        # The deploy writes down the platform file itself.
        del stacks["cluster"]["Resources"]["PlatformFile"]
        (cluster,) = all_resources(stacks, "AWS::EKS::Cluster").values()
        cluster["ResourcesVpcConfig"] = {}
    for role, template in after.items():
        assert template["Resources"] == before[role]["Resources"], role
    assert not any("0.0.0.0/0" in json.dumps(access(templates_of(file))) for file in FILES.values())


@pytest.mark.parametrize("name", with_representatives(FILES, ["hyperpod-eks-shared"]))
def test_builds_that_call_the_api_run_inside_the_vpc(name: str) -> None:
    """CodeBuild has no fixed addresses outside, so that no list of ranges could let it in."""
    cluster = templates_of(FILES[name])["cluster"]
    calling = [
        project
        for project in resources(cluster, "AWS::CodeBuild::Project").values()
        if any(each["Name"] == "CLUSTER_NAME" for each in project["Environment"]["EnvironmentVariables"])
    ]
    assert calling
    for project in calling:
        groups = json.dumps(project["VpcConfig"]["SecurityGroupIds"])
        assert "ClusterSecurityGroupId" in groups and "Outward" in groups
        assert len(project["VpcConfig"]["Subnets"]) == 2
