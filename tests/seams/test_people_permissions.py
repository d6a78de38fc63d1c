"""People's roles may do what the launcher calls for them, and nothing that belongs to another team."""

from __future__ import annotations

import ast
import copy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from tests.seams.call_permissions import needed
from tests.seams.evaluator import Question, allowed, role
from tests.seams.launch_calls import Launch, record
from tests.seams.policies import Document, identity_policies
from tests.seams.resolved import ACCOUNT, Deployed, deployed_of
from tests.seams.sdk_permissions import Permission, permissions_of
from tests.seams.seam import Planted, Seam
from tests.seams.service_reference import action as reference
from tests.synthesis import ROOT

WITH_TRAINING_JOBS = "several-teams"
WITH_HYPERPOD = "hyperpod-eks-shared"
PLATFORMS = (WITH_TRAINING_JOBS, WITH_HYPERPOD)
TEAMS = ("research", "product")
# The phases of a run that a persona takes part in.
PHASES = {"admin": ("launch", "watch", "stop", "repair"), "viewer": ("watch",)}
# Packages that act for a person on a deployed platform. Slurm has no persona roles.
PACKAGES = ("launch", "verify", "explain")
NOT_FOR_PERSONAS = {
    "batch_get_image": "Only a job that names an image by its digest asks it, and a launch without the right warns.",
    "get_download_url_for_layer": "As batch_get_image.",
    "describe_secret": "Only a job with secrets asks it. Without the right, the start of the run finds it absent.",
    "describe_training_plan": "Only --training-plan asks it, and the emulated SageMaker has no plans.",
}
# Methods of other things that are called like an operation.
OTHERS = {"create_experiment": "That of MLflow's client.", "search": "That of a regular expression."}


@cache
def launched(platform: str, team: str) -> Launch:
    """Return what the launch of a team calls."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        return record(platform, team, Path(directory))


def needs(platform: str, team: str, phase: str) -> list[Permission]:
    """Return the permissions that a phase of a team's run needs, each once."""
    launch, region = launched(platform, team), deployed_of(platform).region
    found = [each for call in launch.calls.get(phase, ()) for each in permissions_of(call, region)]
    for command in launch.commands.get(phase, ()):
        found += [Permission(action, resource) for action, resource in needed(command, region)]
    if phase == "repair":
        # The ARN of a cluster of HyperPod has its ID, and a call has its name.
        found = [replace(each, resource=launch.cluster_arn) for each in found]
    return list(dict.fromkeys(found))


def personas(platform: Deployed) -> Iterator[tuple[str, str, list[Document]]]:
    """Yield each persona with the logical ID and the policies of its role."""
    for (stack, name), properties in platform.of_type("AWS::IAM::Role").items():
        persona = properties.get("Description", "").split()[0:1]
        if persona and persona[0].partition("-")[0] in ("admin", "viewer", "team"):
            yield persona[0], name, identity_policies(platform, stack, name)


def with_tags_of(team: str, platform: str, permission: Permission) -> dict[str, str]:
    """Return the condition keys of a call on a job that a team has launched."""
    if permission.action != "sagemaker:StopTrainingJob":
        return permission.context
    (created,) = (each for each in needs(platform, team, "launch") if each.action == "sagemaker:CreateTrainingJob")
    return {key.replace("RequestTag", "ResourceTag"): value for key, value in created.context.items()}


Asked = tuple[bool, str, Question]


def questions(platform: str, deployed: Deployed) -> Iterator[Asked]:
    """Yield what each persona may and may not do, as the expected answer, the persona, and the question."""
    for persona, name, policies in personas(deployed):
        ask = partial(Question, role(name), policies=policies)
        own = persona.removeprefix("team-")
        for team in TEAMS:
            for phase in ("launch", "watch", "stop", "repair"):
                for each in needs(platform, team, phase):
                    may = phase in PHASES.get(persona, ("launch", "watch", "stop") if team == own else ())
                    if may or _separates(persona, each):
                        context = with_tags_of(team, platform, each)
                        yield may, persona, ask(action=each.action, resource=each.resource, context=context)
        for action, resource, context in never(deployed):
            yield False, persona, ask(action=action, resource=resource, context=context)
        # docs/launch-sagemaker.md: a shell in a container is the account's administrators' to grant.
        for each in needs(platform, TEAMS[0], "shell"):
            yield False, persona, ask(action=each.action, resource=each.resource)


def _separates(persona: str, permission: Permission) -> bool:
    """Whether a permission that is not a persona's must be denied to it.

    Viewers change nothing. Teams share the bucket's prefixes and the role of training jobs, and may look at each
    other's jobs: what separates them are their jobs' tags. Nodes belong to all of them, and only administrators repair
    nodes.
    """
    changes = reference(permission.action)["accessLevel"] not in ("Read", "List")
    by_tag = permission.action in ("sagemaker:CreateTrainingJob", "sagemaker:AddTags", "sagemaker:StopTrainingJob")
    of_nodes = permission.action.endswith(("ClusterNodes", "ClusterHealthCheck"))
    return changes if persona == "viewer" else by_tag or of_nodes


def never(platform: Deployed) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield what no persona may do by IAM: change the platform, or take a role that is not theirs."""
    at = f"{platform.region}:{ACCOUNT}"
    (hand_off,) = (
        each["Name"] for each in platform.of_type("AWS::SSM::Parameter").values() if each["Name"].endswith("/hand-off")
    )
    bucket = next(
        each["Bucket"] for (_, name), each in platform.of_type("AWS::S3::BucketPolicy").items() if "DataBucket" in name
    )
    yield "ssm:PutParameter", f"arn:aws:ssm:{at}:parameter{hand_off}", {}
    for prefix in ("delivery", "lifecycle_scripts"):
        yield "s3:PutObject", f"arn:aws:s3:::{bucket}/{prefix}/a", {}
    yield "s3:DeleteBucket", f"arn:aws:s3:::{bucket}", {}
    for _, name in platform.of_type("AWS::IAM::Role"):
        arn = f"arn:aws:iam::{ACCOUNT}:role/{name}"
        yield "sts:AssumeRole", arn, {}
        yield "iam:PassRole", arn, {"iam:PassedToService": "ec2.amazonaws.com"}
        if not name.startswith("TrainingJobRole"):
            yield "iam:PassRole", arn, {"iam:PassedToService": "sagemaker.amazonaws.com"}


def assumed(platform: Deployed) -> Iterator[Asked]:
    """Yield who may assume the role of each persona: the people of the persona, and nobody else's."""
    roles = {persona: name for persona, name, _ in personas(platform)}
    trusts = {name: each["AssumeRolePolicyDocument"] for (_, name), each in platform.of_type("AWS::IAM::Role").items()}
    people = {persona: _person(trusts[name]) for persona, name in roles.items()}
    for persona, name in roles.items():
        arn = f"arn:aws:iam::{ACCOUNT}:role/{name}"
        for other, person in people.items():
            own = [{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:*", "Resource": arn}]}]
            question = Question(role(person.rpartition("/")[2]), "sts:AssumeRole", arn, own, trusts[name])
            yield persona == other, f"{other} as {persona}", question


def _person(trust: Document) -> str:
    """Return the first of the people whom a trust policy names."""
    named = trust["Statement"][0]["Principal"]["AWS"]
    return str(named if isinstance(named, str) else named[0])


def wrong(asked: Sequence[Asked]) -> list[str]:
    """Return the questions whose answer is not the expected one."""
    answers = allowed([question for _, _, question in asked])
    return [
        f"{who} {'may not' if expected else 'may'} {question.action} on {question.resource}"
        for (expected, who, question), answer in zip(asked, answers, strict=True)
        if expected != answer
    ]


def test_a_persona_may_do_what_its_launches_call_and_nothing_of_another_team() -> None:
    asked = [each for name in PLATFORMS for each in questions(name, deployed_of(name))]
    asked += [each for name in PLATFORMS for each in assumed(deployed_of(name))]
    may = {(who, question.action) for expected, who, question in asked if expected}
    assert ("team-research", "sagemaker:CreateTrainingJob") in may and ("viewer", "logs:GetLogEvents") in may
    assert ("admin", "sagemaker:BatchReplaceClusterNodes") in may
    assert {who for _, who, _ in asked} >= {"admin", "viewer", "team-research", "team-product"}
    print(f"{len(asked)} questions, {sum(expected for expected, _, _ in asked)} of them to be allowed")
    assert wrong(asked) == []


def test_every_call_in_the_launchers_code_is_recorded() -> None:
    recorded = {
        xform_name(call.operation)
        for platform in PLATFORMS
        for calls in launched(platform, TEAMS[0]).calls.values()
        for call in calls
    }
    assert calls_in_the_code() == recorded | set(NOT_FOR_PERSONAS)


def calls_in_the_code() -> set[str]:
    """Return the operations of AWS's API that the launcher's code calls, as boto3 names their methods."""
    files = [file for package in PACKAGES for file in (ROOT / "trainway" / package).rglob("*.py")]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    methods = {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)} - set(OTHERS)
    session = botocore.session.get_session()
    operations = {
        xform_name(operation)
        for service in _first_arguments(calls, "client")
        for operation in session.get_service_model(service).operation_names
    }
    return (methods | _first_arguments(calls, "get_paginator")) & operations


def _first_arguments(calls: Sequence[ast.Call], name: str) -> set[str]:
    """Return the texts that functions and methods of a name are called with first."""
    return {
        call.args[0].value
        for call in calls
        if (getattr(call.func, "attr", None) or getattr(call.func, "id", None)) == name
        if call.args and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    }


Change = Callable[[Deployed], None]


def planted(error: str, change: Change, platform: str = WITH_TRAINING_JOBS) -> Planted:
    """Plant an error in a platform's roles for people."""

    def read(change: Change | None, _: Path) -> list[str]:
        deployed = copy.deepcopy(deployed_of(platform))
        if change:
            change(deployed)
        return wrong([*questions(platform, deployed), *assumed(deployed)])

    return Planted(error, sound=partial(read, None), broken=partial(read, change))


def statements(persona: str, action: str, deployed: Deployed) -> Iterator[dict[str, Any]]:
    """Yield the statements of a persona's role that allow an action."""
    for name, _, policies in personas(deployed):
        for policy in policies:
            yield from (each for each in policy["Statement"] if name == persona and action in each["Action"])


def cannot_pass_the_role(deployed: Deployed) -> None:
    for statement in statements("team-research", "iam:PassRole", deployed):
        statement["Resource"] = f"arn:aws:iam::{ACCOUNT}:role/another"


def stops_every_job(deployed: Deployed) -> None:
    for statement in statements("team-research", "sagemaker:StopTrainingJob", deployed):
        del statement["Condition"]


def tags_any_job(deployed: Deployed) -> None:
    for statement in statements("team-research", "sagemaker:AddTags", deployed):
        statement["Action"] = "sagemaker:DeleteTags"


def viewers_write(deployed: Deployed) -> None:
    for statement in statements("viewer", "ssm:GetParameter", deployed):
        statement["Action"] = ["ssm:GetParameter", "s3:PutObject"]
        statement["Resource"] = "*"


def reads_another_hand_off(deployed: Deployed) -> None:
    for statement in statements("admin", "ssm:GetParameter", deployed):
        statement["Resource"] = f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/trainway/another/hand-off"


def repairs_another_cluster(deployed: Deployed) -> None:
    for statement in statements("admin", "sagemaker:BatchReplaceClusterNodes", deployed):
        statement["Resource"] = f"arn:aws:sagemaker:{deployed.region}:{ACCOUNT}:cluster/{'a' * 12}"


def teams_repair_nodes(deployed: Deployed) -> None:
    (repairs,) = statements("admin", "sagemaker:BatchReplaceClusterNodes", deployed)
    for statement in statements("team-research", "ssm:GetParameter", deployed):
        statement.update(repairs)


def trusts_everybody(deployed: Deployed) -> None:
    for _, name, _ in personas(deployed):
        statement = deployed.resources["cluster"][name]["AssumeRolePolicyDocument"]["Statement"][0]
        if "TeamResearch" in name:
            statement["Principal"] = {"AWS": [statement["Principal"]["AWS"], f"arn:aws:iam::{ACCOUNT}:root"]}


SEAMS = (
    Seam(
        artifact="Roles for people",
        rendered_by="stacks/constructs/eks/people.py",
        reader="@cloud-copilot/iam-simulate, asked for each call that the launcher makes while it launches, watches, "
        "and stops a run, and for what belongs to another team",
        instead="IAM runs only in AWS.",
        planted=(
            planted("a team may not pass the role of training jobs", cannot_pass_the_role),
            planted("a team may stop the training jobs of another team", stops_every_job),
            planted("a team may not tag the training jobs that it launches", tags_any_job),
            planted("viewers may write to the bucket", viewers_write),
            planted("an administrator may read the hand-off of another platform only", reads_another_hand_off),
            planted(
                "an administrator may repair nodes of another cluster only", repairs_another_cluster, WITH_HYPERPOD
            ),
            planted("a team may repair nodes", teams_repair_nodes, WITH_HYPERPOD),
            planted("the whole account may assume a team's role", trusts_everybody),
        ),
    ),
)
