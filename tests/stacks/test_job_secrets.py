"""Jobs may read the secrets of the platform file, and nobody else may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stacks.test_private_base import statements
from tests.synthesis import ROOT, Template, templates_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.network.endpoints import interface_endpoints

ALL = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hugging-face-AbCdEf"
OF_A_TEAM = "arn:aws:secretsmanager:us-west-2:111122223333:secret:team/wandb-AbCdEf"
KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
NAMED = ("secret:hugging-face-", OF_A_TEAM, KEY)
BOTH = f"[{{secret: {ALL}, key: {KEY}}}, {{secret: {OF_A_TEAM}, teams: [research]}}]"


OF_SLURM = f"[{{secret: {ALL.replace('us-west-2', 'us-east-2')}}}]"
SECRETS = {"eks-p5": BOTH, "hyperpod-eks-p5": BOTH, "hyperpod-slurm-p5en": OF_SLURM}
MLFLOW_APP = "arn:aws:sagemaker:us-west-2:111122223333:mlflow-app/app-ABC"
MLFLOW_SERVER = "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/lab"


def with_secrets(example: str, secrets: str, tmp_path: Path, mlflow: str = MLFLOW_APP) -> Path:
    """Write the platform file of an example with secrets and an MLflow tracking server.

    All jobs have one role. tests/security/test_team_data.py has platforms with a role for each team.
    """
    document = yaml.safe_load((ROOT / f"examples/{example}.yaml").read_text(encoding="utf-8"))
    document["secrets"] = yaml.safe_load(secrets)
    document.setdefault("storage", {})["bucket"] = {"team_prefixes": False}
    document["observability"] = {**document.get("observability", {}), "mlflow": mlflow}
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


def readers(templates: dict[str, Template]) -> dict[str, list[Any]]:
    """The statements that name a secret or the key, by the beginning of the policy's name."""
    found: dict[str, list[Any]] = {}
    for template in templates.values():
        for name in template["Resources"]:
            if template["Resources"][name]["Type"] != "AWS::IAM::Policy":
                continue
            named = [each for each in statements(template, name) if any(one in json.dumps(each) for one in NAMED)]
            if named:
                found[name.partition("DefaultPolicy")[0]] = named
    return found


@pytest.mark.parametrize(
    ("example", "namespace"), [("eks-p5", "research"), ("hyperpod-eks-p5", "hyperpod-ns-research")]
)
def test_on_kubernetes_a_pod_reads_what_is_for_all_and_what_is_for_its_team(
    example: str, namespace: str, tmp_path: Path
) -> None:
    [(name, found)] = readers(templates_of(with_secrets(example, BOTH, tmp_path))).items()
    assert "Job" in name
    to_all, decrypt, to_team = found
    assert (to_all["Action"], to_all["Resource"]) == ("secretsmanager:GetSecretValue", ALL)
    assert "Condition" not in to_all
    assert decrypt["Action"] == "kms:Decrypt" and "kms:ViaService" in json.dumps(decrypt["Condition"])
    namespaces = to_team["Condition"]["StringEquals"]["aws:PrincipalTag/kubernetes-namespace"]
    assert to_team["Resource"] == OF_A_TEAM and namespaces == [namespace]


def test_on_slurm_nodes_read_what_is_for_all_and_the_controller_does_not(tmp_path: Path) -> None:
    file = with_secrets("hyperpod-slurm-p5en", OF_SLURM, tmp_path, MLFLOW_SERVER)
    assert list(readers(templates_of(file))) == ["ExecutionRole"]


def test_a_closed_network_lets_jobs_ask_for_secrets(tmp_path: Path) -> None:
    catalogue = load_catalogue()
    first, second = (
        set(interface_endpoints(load_platform(with_secrets("closed-hyperpod-eks", each, tmp_path)), catalogue))
        for each in (f"[{{secret: {ALL}}}]", "[]")
    )
    assert first - second == {"secretsmanager"}


SERVER_ACTION = "sagemaker-mlflow:LogBatch"


@pytest.mark.parametrize(
    ("example", "arn", "action"),
    [
        ("eks-p5", MLFLOW_APP, "sagemaker:CallMlflowAppApi"),
        ("hyperpod-eks-p5", MLFLOW_APP, "sagemaker:CallMlflowAppApi"),
        ("hyperpod-slurm-p5en", MLFLOW_SERVER, SERVER_ACTION),
        pytest.param("eks-p5", MLFLOW_SERVER, SERVER_ACTION, marks=pytest.mark.exhaustive),
        pytest.param("hyperpod-eks-p5", MLFLOW_SERVER, SERVER_ACTION, marks=pytest.mark.exhaustive),
        pytest.param("hyperpod-slurm-p5en", MLFLOW_APP, "sagemaker:CallMlflowAppApi", marks=pytest.mark.exhaustive),
    ],
)
def test_jobs_report_to_the_mlflow_of_the_file_and_nobody_else_does(
    example: str, arn: str, action: str, tmp_path: Path
) -> None:
    file = with_secrets(example, SECRETS[example], tmp_path, arn)
    found = [
        (name, each)
        for template in templates_of(file).values()
        for name in template["Resources"]
        if template["Resources"][name]["Type"] == "AWS::IAM::Policy"
        for each in statements(template, name)
        if "mlflow" in json.dumps(each)
    ]
    assert len(found) == 1
    for name, statement in found:
        assert ("ExecutionRole" if "slurm" in example else "Job") in name
        assert statement["Resource"] == arn and action in statement["Action"]
