"""The secret of Run:ai is read by the two stages that need it, and by no team, job, or node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.seams import evaluator
from tests.seams.policies import identity_policies
from tests.seams.resolved import ACCOUNT, deploy
from tests.stacks.test_private_base import KEY, allowed, statements
from tests.synthesis import ROOT, Template, resources, templates_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.network.endpoints import interface_endpoints

ARN = "arn:aws:secretsmanager:us-east-1:111122223333:secret:run-ai-AbCdEf"
GET = "secretsmanager:GetSecretValue"
READERS = {"mirror": "MirrorRole", "cluster": "KubernetesClusterStageRole"}


def platform_file(example: str, tmp_path: Path, **section: str) -> Path:
    document = yaml.safe_load((ROOT / f"examples/{example}.yaml").read_text(encoding="utf-8"))
    run_ai = {"control_plane": "https://acme.run.ai", "secret": "run-ai/atlas"} | section
    document["kubernetes"] = document.get("kubernetes", {}) | {"run_ai": run_ai}
    document["kubernetes"]["system_nodes"] = {"instance_type": "m7i.8xlarge"}
    document["teams"] = [{"name": "research"}, {"name": "product"}]
    document["storage"]["lustre"]["team_directories"] = False
    if "hyperpod" in example:
        document["hyperpod"] = document.get("hyperpod", {}) | {"task_governance": False}
    else:
        document["kubernetes"]["gpu_devices"] = "operator"
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


def readers(templates: dict[str, Template]) -> set[str]:
    """Return the roles that may read the secret of `kubernetes.run_ai`, by the prefix of their policy names."""
    return {
        name.partition("DefaultPolicy")[0]
        for template in templates.values()
        for name in resources(template, "AWS::IAM::Policy") | resources(template, "AWS::IAM::ManagedPolicy")
        for each in statements(template, name)
        if "run-ai" in json.dumps(each) and "secretsmanager" in json.dumps(each["Action"])
    }


@pytest.mark.parametrize("example", ["eks-p5", "hyperpod-eks-p5"])
def test_the_mirror_and_the_cluster_stage_read_that_secret_and_no_other_role_does(example: str, tmp_path: Path) -> None:
    stacks = templates_of(platform_file(example, tmp_path))
    assert len(readers(stacks)) == 2
    for stack, role in READERS.items():
        [arn] = allowed(stacks[stack], role, GET)
        # Of the account and the Region, and with exactly the six characters that Secrets Manager adds.
        assert ":secret:run-ai/atlas-??????" in arn and "*" not in arn
    told = [
        variables
        for template in stacks.values()
        for project in resources(template, "AWS::CodeBuild::Project").values()
        for variables in project["Environment"]["EnvironmentVariables"]
        if variables["Name"] == "RUN_AI_SECRET"
    ]
    assert [each["Value"] for each in told] == ["run-ai/atlas"] * 2


@pytest.mark.parametrize("example", ["eks-p5", "hyperpod-eks-p5"])
def test_no_role_of_a_team_a_job_or_a_node_is_let_read_it(example: str, tmp_path: Path) -> None:
    file = platform_file(example, tmp_path)
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    document |= {"iam": {"persona_roles": True, "training_jobs": True}}
    document["secrets"] = [{"secret": "arn:aws:secretsmanager:us-west-2:111122223333:secret:all-AbCdEf"}]
    document["teams"] = [{"name": "research", "members": ["arn:aws:iam::111122223333:role/Bob"]}]
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    platform = deploy(templates_of(file), document["region"])
    roles = list(platform.of_type("AWS::IAM::Role"))
    assert any("Team" in name for _, name in roles) and any("Job" in name for _, name in roles)
    secrets = f"arn:aws:secretsmanager:{document['region']}:{ACCOUNT}:secret"
    # Its own, and another that is named like it.
    for secret, is_ours in {"run-ai/atlas-AbCdEf": True, "run-ai/atlas-2-AbCdEf": False}.items():
        asked = []
        for stack, name in roles:
            own = identity_policies(platform, stack, name)
            asked.append(evaluator.Question(evaluator.role(name), GET, f"{secrets}:{secret}", own))
        may = {name[:-8] for (_, name), answer in zip(roles, evaluator.allowed(asked), strict=True) if answer}
        assert may == (set(READERS.values()) if is_ours else set()), secret


def test_a_secret_of_another_region_is_named_in_full_and_decrypted_with_its_key(tmp_path: Path) -> None:
    stacks = templates_of(platform_file("eks-p5", tmp_path, secret=ARN, key=KEY))
    for stack, role in READERS.items():
        assert allowed(stacks[stack], role, GET) == [json.dumps(ARN)]
        decrypt = [each for each in statements(stacks[stack], role) if each["Resource"] == KEY]
        assert [each["Action"] for each in decrypt] == ["kms:Decrypt"]


def test_without_the_section_no_stage_reads_a_secret_of_run_ai() -> None:
    stacks = templates_of(ROOT / "examples/eks-p5.yaml")
    assert readers(stacks) == set()
    assert "RUN_AI_SECRET" not in json.dumps(stacks)


def test_a_closed_network_reaches_secrets_manager_and_supplies_the_chart_by_hand(tmp_path: Path) -> None:
    file = platform_file("closed-hyperpod-eks", tmp_path, registry="registry.example.com/run-ai")
    platform = load_platform(file)
    assert "secretsmanager" in interface_endpoints(platform, load_catalogue())
    stacks = templates_of(file)
    assert allowed(stacks["mirror"], "MirrorRole", GET) == []
    assert allowed(stacks["cluster"], "KubernetesClusterStageRole", GET)
    [parameter] = [
        each for each in resources(stacks["registry"], "AWS::SSM::Parameter").values() if "supply" in each["Name"]
    ]
    assert "run-ai/atlas" in json.dumps(parameter["Value"]) and "runai-cluster" in json.dumps(parameter["Value"])
