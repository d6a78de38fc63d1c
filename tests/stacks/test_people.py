"""People come into the cluster by roles that only they assume, with the parts that the file gives them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.synthesis import Template, resources, templates_of
from trainway.spec.teams.groups import VIEWERS, members_group

ADA, BOB, CYD, DAN = (f"arn:aws:iam::111122223333:role/{name}" for name in ("Ada", "Bob", "Cyd", "Dan"))
PLATFORM: dict[str, Any] = {
    "region": "us-west-2",
    "zones": ["usw2-az2", "usw2-az1"],
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 2}],
    "teams": [{"name": "research", "members": [BOB, CYD]}, {"name": "guests"}],
    "kubernetes": {"admins": [ADA], "viewers": [DAN, BOB]},
    "iam": {"persona_roles": True},
}


# Both clusters have these roles from the same code.
@pytest.fixture(params=["eks", pytest.param("hyperpod-eks", marks=pytest.mark.exhaustive)])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Template:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(PLATFORM | {"orchestrator": request.param}))
    return templates_of(file)["cluster"]


def persona_roles(cluster: Template) -> dict[str, str]:
    """Logical id of the role by the first word of its description."""
    roles = resources(cluster, "AWS::IAM::Role")
    return {role["Description"].split()[0]: name for name, role in roles.items() if "Description" in role}


def allowed(cluster: Template, role: str) -> set[str]:
    policies = resources(cluster, "AWS::IAM::Policy").values()
    statements = [s for p in policies if {"Ref": role} in p["Roles"] for s in p["PolicyDocument"]["Statement"]]
    actions = [[s["Action"]] if isinstance(s["Action"], str) else s["Action"] for s in statements]
    return {action for each in actions for action in each}


def test_each_part_that_somebody_has_is_a_role_that_they_assume(cluster: Template) -> None:
    roles = persona_roles(cluster)
    trusted = {}
    for persona, name in roles.items():
        (statement,) = resources(cluster, "AWS::IAM::Role")[name]["AssumeRolePolicyDocument"]["Statement"]
        people = statement["Principal"]["AWS"]
        trusted[persona] = {people} if isinstance(people, str) else set(people)
    assert trusted == {"admin": {ADA}, "viewer": {DAN, BOB}, "team-research": {BOB, CYD}}


def test_the_roles_and_no_person_are_let_in(cluster: Template) -> None:
    entries = {
        entry["PrincipalArn"]["Fn::GetAtt"][0]: (bool(entry.get("AccessPolicies")), entry.get("KubernetesGroups"))
        for entry in resources(cluster, "AWS::EKS::AccessEntry").values()
        if entry["PrincipalArn"]["Fn::GetAtt"][0] in persona_roles(cluster).values()
    }
    roles = persona_roles(cluster)
    assert entries == {
        roles["admin"]: (True, None),
        roles["viewer"]: (False, [VIEWERS]),
        roles["team-research"]: (False, [members_group("research")]),
    }
    assert not any(person in json.dumps(resources(cluster, "AWS::EKS::AccessEntry")) for person in (ADA, BOB, CYD, DAN))


def test_a_role_finds_the_cluster_and_the_hand_off_and_only_those_who_train_move_data(cluster: Template) -> None:
    query = {"aps:ListWorkspaces", "aps:DescribeWorkspace", "aps:QueryMetrics"}
    find = {"eks:DescribeCluster", "s3:GetObject", "ssm:GetParameter", *query}
    roles = persona_roles(cluster)
    assert allowed(cluster, roles["viewer"]) == find | {"s3:ListBucket"}, "of the records of runs"
    for persona in ("admin", "team-research"):
        assert allowed(cluster, roles[persona]) > find | {"s3:PutObject"}
        assert not {action for action in allowed(cluster, roles[persona]) if action.startswith("iam:")}


def test_a_role_reads_the_object_that_the_hand_offs_parameter_names(cluster: Template) -> None:
    parameters = resources(cluster, "AWS::SSM::Parameter").values()
    (pointer,) = (each["Value"] for each in parameters if each["Name"].endswith("/hand-off"))
    before_key, bucket, between, *_ = pointer["Fn::Join"][1]
    assert before_key.endswith('"bucket":"')
    key = re.search(r'"key":"([0-9a-f]{64}\.json)"', between)
    assert key
    for role in persona_roles(cluster).values():
        read = [
            resource
            for policy in resources(cluster, "AWS::IAM::Policy").values()
            if {"Ref": role} in policy["Roles"]
            for statement in policy["PolicyDocument"]["Statement"]
            if statement["Action"] == "s3:GetObject"
            for resource in (
                [statement["Resource"]] if isinstance(statement["Resource"], dict) else statement["Resource"]
            )
            if ".registry" not in json.dumps(resource)
        ]
        arn = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":s3:::", bucket, f"/{key[1]}"]]}
        assert read == [arn]


def test_the_stack_says_which_role_is_whose(cluster: Template) -> None:
    outputs = {name: output["Value"] for name, output in cluster["Outputs"].items() if name.endswith("Role")}
    assert {name: value["Fn::GetAtt"][0] for name, value in outputs.items()} == {
        "AdminRole": persona_roles(cluster)["admin"],
        "ViewerRole": persona_roles(cluster)["viewer"],
        "TeamResearchRole": persona_roles(cluster)["team-research"],
    }


@pytest.mark.parametrize(
    "collected",
    [
        {"orchestrator": "hyperpod-eks", "hyperpod": {"observability": True}},
        pytest.param(
            {"orchestrator": "eks", "kubernetes": {**PLATFORM["kubernetes"], "observability": True}},
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["hyperpod-eks", "eks"],
)
def test_the_roles_of_people_query_the_workspace_with_the_use_of_gpus_and_no_other(
    collected: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(PLATFORM | collected))
    cluster = templates_of(file)["cluster"]
    (workspace,) = resources(cluster, "AWS::APS::Workspace")
    for role in persona_roles(cluster).values():
        policies = [p for p in resources(cluster, "AWS::IAM::Policy").values() if {"Ref": role} in p["Roles"]]
        statements = [s for p in policies for s in p["PolicyDocument"]["Statement"] if "aps:" in json.dumps(s)]
        assert {json.dumps(s["Action"]): s["Resource"] for s in statements} == {
            '["aps:DescribeWorkspace", "aps:QueryMetrics"]': {"Fn::GetAtt": [workspace, "Arn"]},
            '"aps:ListWorkspaces"': "*",
        }
