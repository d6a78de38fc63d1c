"""Training jobs of SageMaker's have a role of their own, where the platform file asks for it and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hand_offs import hand_off_in
from tests.people import with_people
from tests.representatives import representatives_and_every
from tests.stacks.by_example import FILES, Synthesized
from tests.synthesis import Template, assembly_in, make_app, resources, templates_of

GROUPS = [
    {"name": "train", "instance_type": "p5.48xlarge", "count": 2},
    {"name": "small", "instance_type": "g6.12xlarge", "count": 1, "zone": "usw2-az1"},
]
PLATFORM: dict[str, Any] = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"], "node_groups": GROUPS}


# Both clusters on Kubernetes have the role from the same code.
@pytest.fixture(
    scope="module", params=["eks", pytest.param("hyperpod-eks", marks=pytest.mark.exhaustive), "hyperpod-slurm"]
)
def platform_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp(request.param) / "platform.yaml"
    file.write_text(
        yaml.safe_dump(with_people(PLATFORM | {"orchestrator": request.param, "iam": {"training_jobs": True}}))
    )
    return file


@pytest.fixture(scope="module")
def cluster(platform_file: Path) -> Template:
    return templates_of(platform_file)["cluster"]


def statements_of_jobs(template: Template) -> list[dict[str, Any]]:
    """What the role may do."""
    (role,) = role_of_jobs(template)
    policies = resources(template, "AWS::IAM::Policy").values()
    return [s for p in policies if {"Ref": role} in p["Roles"] for s in p["PolicyDocument"]["Statement"]]


def role_of_jobs(template: Template) -> dict[str, Any]:
    """The roles that training jobs run as, by logical id."""
    roles = resources(template, "AWS::IAM::Role")
    return {name: role for name, role in roles.items() if "training jobs" in role.get("Description", "")}


@pytest.mark.parametrize("examples", representatives_and_every(FILES))
def test_no_platform_has_the_role_unasked(examples: tuple[str, ...], synthesized: Synthesized) -> None:
    for by_role in (synthesized[name] for name in examples):
        assert not any(role_of_jobs(template) for template in by_role.values())
        assert "training_jobs" not in json.dumps(resources(by_role["cluster"], "AWS::SSM::Parameter"))


def test_sagemaker_assumes_the_role_for_this_account_only(cluster: Template) -> None:
    (role,) = role_of_jobs(cluster).values()
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


def test_the_role_writes_below_the_prefixes_of_jobs_and_to_the_logs_of_training_jobs_alone(cluster: Template) -> None:
    from tests.security.test_least_privilege import actions

    by_action = {action: json.dumps(on) for action, on in actions(statements_of_jobs(cluster))}
    assert "/runs/*" in by_action["s3:PutObject"] and "/lifecycle_scripts" not in by_action["s3:PutObject"]
    assert ":log-group:/aws/sagemaker/TrainingJobs*" in by_action["logs:PutLogEvents"]
    services = {action.partition(":")[0] for action in by_action}
    assert services == {"s3", "logs", "cloudwatch", "ecr", "ec2", "ssmmessages"}


def test_the_role_is_limited_wherever_it_can_be(cluster: Template) -> None:
    from tests.security.test_least_privilege import WITHOUT_A_RESOURCE, actions, limits

    everything = {action for action, on in actions(statements_of_jobs(cluster)) if "*" in on}
    assert everything
    assert {action for action in everything if limits(action)} <= WITHOUT_A_RESOURCE


def test_no_cdk_nag_errors_and_no_cdk_validation_errors(
    platform_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import aws_cdk as cdk
    from cdk_nag import AwsSolutionsChecks

    monkeypatch.setenv("CDK_VALIDATION", "true")
    app = make_app(platform_file, tmp_path)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()  # raises with the findings that nobody acknowledged


def test_the_hand_off_names_the_role_and_where_jobs_run(platform_file: Path, cluster: Template) -> None:
    (role,) = role_of_jobs(cluster)
    told = hand_off_in(assembly_in(platform_file), known_by_name).training_jobs
    assert told is not None
    assert told.role_arn == known_by_name({"Fn::GetAtt": [role, "Arn"]})
    assert set(told.subnet_ids) == {group["name"] for group in GROUPS}
    assert len(set(told.subnet_ids.values())) == len(GROUPS)
    assert told.security_group_ids


def known_by_name(part: Any) -> str:
    """A part of a joined text; of one that only the deploy knows, its name."""
    return part if isinstance(part, str) else json.dumps(part).replace('"', "'")
