"""A platform whose base is in a private registry: its build may read that image and that secret alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.synthesis import ROOT, Template, resources, templates_of

EKS, CLOSED = ROOT / "examples/eks-p5.yaml", ROOT / "examples/closed-hyperpod-eks.yaml"
DIGEST = "sha256:" + 64 * "0"
AWS = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9.0@{DIGEST}"
NVIDIA = f"nvcr.io/nvidia/pytorch:26.10-py3@{DIGEST}"
SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:ngc-AbCdEf"
KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def with_image(example: Path, image: str, tmp_path: Path) -> dict[str, Template]:
    file = tmp_path / "platform.yaml"
    file.write_text(f"{example.read_text(encoding='utf-8')}\nimage: {image}\n", encoding="utf-8")
    return templates_of(file)


def statements(template: Template, role: str) -> list[Any]:
    policies = resources(template, "AWS::IAM::Policy")
    return [
        each for name, one in policies.items() if name.startswith(role) for each in one["PolicyDocument"]["Statement"]
    ]


def allowed(template: Template, role: str, action: str) -> list[str]:
    """The resources of a role's statements with an action."""
    found = [each["Resource"] for each in statements(template, role) if action in each["Action"]]
    return [json.dumps(each) for each in found]


def test_a_base_in_another_accounts_ecr_is_pulled_by_the_base_stage_alone(tmp_path: Path) -> None:
    stacks = with_image(EKS, f'{{base: "{AWS}"}}', tmp_path)
    pulled = allowed(stacks["image"], "BaseRole", "ecr:BatchGetImage")
    assert any(':ecr:us-east-1:763104351884:repository/pytorch-training"' in each for each in pulled)
    assert not any("763104351884" in json.dumps(each) for each in statements(stacks["image"], "BuildRole"))
    assert not any("763104351884" in each for each in allowed(stacks["image"], "BaseRole", "ecr:PutImage"))


@pytest.mark.parametrize("base", [f'base: "{NVIDIA}", ', pytest.param("", id="the combination's base")])
@pytest.mark.parametrize("key", [f", key: '{KEY}'", pytest.param("", marks=pytest.mark.exhaustive)])
def test_a_login_lets_the_base_stage_read_that_secret_with_that_key(key: str, base: str, tmp_path: Path) -> None:
    stacks = with_image(EKS, f'{{{base}base_login: {{secret: "{SECRET}"{key}}}}}', tmp_path)
    assert allowed(stacks["image"], "BaseRole", "secretsmanager:GetSecretValue") == [json.dumps(SECRET)]
    decrypt = [each for each in statements(stacks["image"], "BaseRole") if each["Resource"] == KEY]
    assert [each["Action"] for each in decrypt] == (["kms:Decrypt"] if key else [])
    assert "secretsmanager" not in json.dumps(statements(stacks["image"], "BuildRole"))
    projects = resources(stacks["image"], "AWS::CodeBuild::Project")
    told = {
        name: {each["Name"]: each["Value"] for each in one["Environment"]["EnvironmentVariables"]}
        for name, one in projects.items()
    }
    assert [variables.get("BASE_LOGIN_SECRET") for variables in told.values()].count(SECRET) == 1


def test_in_a_closed_network_the_command_of_the_supply_has_the_secret_and_no_role_does(tmp_path: Path) -> None:
    stacks = with_image(CLOSED, f'{{base: "{NVIDIA}", base_login: {{secret: "{SECRET}"}}}}', tmp_path)
    [parameter] = [
        each for each in resources(stacks["registry"], "AWS::SSM::Parameter").values() if "supply" in each["Name"]
    ]
    assert SECRET in json.dumps(parameter["Value"])
    assert "secretsmanager:" not in json.dumps(resources(stacks["image"], "AWS::IAM::Policy"))
