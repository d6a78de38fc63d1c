"""Threat: a team reads, changes, or deletes another team's data in the bucket, by its jobs or by its people."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.representatives import with_representatives
from tests.seams.evaluator import Question, allowed, role
from tests.seams.policies import EVERYTHING, Document, identity_policies, policies_of
from tests.seams.policy_lint import findings
from tests.seams.resolved import ACCOUNT, Deployed, deploy
from tests.synthesis import templates_of

PEOPLE = "arn:aws:iam::111122223333:role"
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret"
PLATFORM: dict[str, Any] = {
    "region": "us-west-2",
    "zones": ["usw2-az2", "usw2-az1"],
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 2}],
    "kubernetes": {"admins": [f"{PEOPLE}/Ada"], "viewers": [f"{PEOPLE}/Eve"]},
    "storage": {"bucket": {"shared": ["corpus/web"]}},
    # Nothing but teams is needed for the walls between them. The name of the one begins with the name of the other.
    "teams": [
        {"name": "vision", "members": [f"{PEOPLE}/Bob"], "data": ["checkpoints/llama"]},
        {"name": "vision-2", "members": [f"{PEOPLE}/Cyd"]},
    ],
    "iam": {"persona_roles": True, "training_jobs": True},
}
CHANGE = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
# What is whose, by an object.
OBJECTS = {
    "checkpoints/vision/a/1": "vision",
    "runs/vision/a/log": "vision",
    "corpus/vision/a": "vision",
    "checkpoints/llama/1": "vision",
    "checkpoints/vision-2/a/1": "vision-2",
    "runs/vision-2/code/a.tar.gz": "vision-2",
    "runs/vision-2/.registry/a.json": "vision-2",
    "corpus/vision-2/a": "vision-2",
    "corpus/web/a": "everybody",
    "corpus/web-2/a": "nobody",
    "checkpoints/llama-2/1": "nobody",
    "runs/code/a.tar.gz": "nobody",
    "lifecycle_scripts/a": "nobody",
}
# Roles of each team: of its pods, of its training jobs, and of its members.
ROLES = {
    "vision": ("KubernetesJobOf{namespace}", "TrainingJobRoleOfVision", "KubernetesTeamVisionRole"),
    "vision-2": ("KubernetesJobOf{namespace}2", "TrainingJobRoleOfVision2", "KubernetesTeamVision2Role"),
}
NAMESPACES = {"eks": "Vision", "hyperpod-eks": "HyperpodNsVision"}
# Under Slurm, nodes assume the role of a team for its jobs, and members have no roles.
SLURM = "hyperpod-slurm"
SLURM_ROLES = {
    "vision": ("SlurmJobRoleOfVision", "TrainingJobRoleOfVision"),
    "vision-2": ("SlurmJobRoleOfVision2", "TrainingJobRoleOfVision2"),
}
SLURM_PLATFORM: dict[str, Any] = {key: each for key, each in PLATFORM.items() if key != "kubernetes"} | {
    "orchestrator": SLURM,
    "teams": [
        {"name": "vision", "users": ["ada"], "data": ["checkpoints/llama"]},
        {"name": "vision-2", "users": ["cyd"]},
    ],
    "iam": {"training_jobs": True},
    "secrets": [{"secret": f"{SECRET}:vision-AbCdEf", "teams": ["vision"]}, {"secret": f"{SECRET}:shared-AbCdEf"}],
}
Asked = list[tuple[bool, Question]]


@pytest.fixture(scope="module", params=sorted([*NAMESPACES, SLURM]))
def orchestrator(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def platform(orchestrator: str, tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    file = tmp_path_factory.mktemp("platform") / "platform.yaml"
    document = SLURM_PLATFORM if orchestrator == SLURM else PLATFORM | {"orchestrator": orchestrator}
    file.write_text(yaml.safe_dump(document))
    return deploy(templates_of(file), PLATFORM["region"])


def roles_of(team: str, platform: Deployed, orchestrator: str) -> Iterator[tuple[str, list[Document]]]:
    """Yield the roles of a team, with their policies."""
    for prefix in SLURM_ROLES[team] if orchestrator == SLURM else ROLES[team]:
        start = prefix.format(namespace=NAMESPACES.get(orchestrator))
        # An ID ends with the CDK's hash of eight characters.
        (found,) = (
            (stack, name) for stack, name in platform.of_type("AWS::IAM::Role") if name[:-8] == start or name == start
        )
        yield found[1], identity_policies(platform, *found)


def bucket_of(platform: Deployed) -> tuple[str, Document]:
    """Return the ARN and the policy of the data bucket."""
    (policy,) = (each for (_, name), each in platform.of_type("AWS::S3::BucketPolicy").items() if "DataBucket" in name)
    return f"arn:aws:s3:::{policy['Bucket']}", policy["PolicyDocument"]


def questions(platform: Deployed, orchestrator: str) -> Asked:
    """Return what the roles of each team may and may not do with the objects of both teams."""
    bucket, theirs = bucket_of(platform)
    found: Asked = []
    for team in ROLES:
        for name, own in roles_of(team, platform, orchestrator):
            for key, owner in OBJECTS.items():
                where = f"{bucket}/{key}"
                may_read = owner in (team, "everybody")
                found.append((may_read, Question(role(name), "s3:GetObject", where, own, theirs)))
                found += [(owner == team, Question(role(name), each, where, own, theirs)) for each in CHANGE]
                listed = {"s3:prefix": f"{key.rpartition('/')[0]}/"}
                found.append((may_read, Question(role(name), "s3:ListBucket", bucket, own, theirs, context=listed)))
            found.append((False, Question(role(name), "s3:ListBucket", bucket, own, theirs)))
            everything = {"s3:prefix": "checkpoints/"}
            found.append((False, Question(role(name), "s3:ListBucket", bucket, own, theirs, context=everything)))
    return found


@pytest.mark.parametrize(
    "orchestrator", with_representatives(sorted(NAMESPACES), ["eks"]), indirect=True, scope="module"
)
def test_a_viewer_reads_the_records_of_all_runs_and_nothing_else(platform: Deployed) -> None:
    bucket, theirs = bucket_of(platform)
    roles = platform.of_type("AWS::IAM::Role")
    ((stack, name),) = (each for each in roles if each[1].startswith("KubernetesViewerRole"))
    own = identity_policies(platform, stack, name)
    asked: Asked = []
    for key in (*OBJECTS, "runs/.registry/a.json", "runs/vision/.registry/a.state"):
        is_record = ".registry/" in key
        asked.append((is_record, Question(role(name), "s3:GetObject", f"{bucket}/{key}", own, theirs)))
        asked += [(False, Question(role(name), each, f"{bucket}/{key}", own, theirs)) for each in CHANGE]
    prefixes = {"runs/vision/.registry/": True, "runs/.registry/": True, "runs/vision/": False, "": False}
    for prefix, may in prefixes.items():
        listed = {"s3:prefix": prefix}
        asked.append((may, Question(role(name), "s3:ListBucket", bucket, own, theirs, context=listed)))
    assert wrong(asked) == []


def wrong(asked: Asked) -> list[str]:
    """Return the questions whose answer is not the expected one."""
    answers = allowed([question for _, question in asked])
    return [
        f"{question.principal} {question.action} {question.resource} {question.context}: {answer}"
        for (may, question), answer in zip(asked, answers, strict=True)
        if may != answer
    ]


def test_a_team_reads_and_changes_its_own_prefixes_and_reads_what_all_share(
    platform: Deployed, orchestrator: str
) -> None:
    asked = questions(platform, orchestrator)
    assert {may for may, _ in asked} == {True, False}
    assert wrong(asked) == []


def test_no_node_and_no_pod_of_a_team_has_a_role_with_the_data_of_all(platform: Deployed) -> None:
    """Administrators and training jobs without a team have all of it. Members cannot pass the role of those."""
    bucket, theirs = bucket_of(platform)
    asked = {
        name: Question(
            role(name),
            "s3:GetObject",
            f"{bucket}/checkpoints/nobody/1",
            identity_policies(platform, stack, name),
            theirs,
        )
        for stack, name in platform.of_type("AWS::IAM::Role")
        if stack == "cluster"
    }
    may = {name for name, answer in zip(asked, allowed(list(asked.values())), strict=True) if answer}
    assert {name.removesuffix(name[-8:]) for name in may} <= {"KubernetesAdminRole", "TrainingJobRole"}


@pytest.mark.parametrize("orchestrator", [SLURM], indirect=True, scope="module")
def test_only_nodes_assume_the_role_of_a_team_on_slurm(platform: Deployed) -> None:
    assume, found = "sts:AssumeRole", platform.of_type("AWS::IAM::Role")
    (node,) = (name for _, name in found if name.startswith("ExecutionRole"))
    asked: Asked = []
    for team, others in SLURM_ROLES.items():
        (mine,) = (each for each in found if each[1][:-8] == others[0])
        arn, trust = f"arn:aws:iam::{ACCOUNT}:role/{mine[1]}", found[mine]["AssumeRolePolicyDocument"]
        for stack, name in found:
            own = identity_policies(platform, stack, name)
            asked.append((name == node, Question(role(name), assume, arn, own, trust)))
        # An administrator of the account, whose own policy allows everything.
        asked.append((False, Question(role("Administrator"), assume, arn, [EVERYTHING], trust)))
        own = identity_policies(platform, *mine)
        for secret in ("vision", "shared"):
            may = secret in (team, "shared")
            where = f"{SECRET}:{secret}-AbCdEf"
            asked.append((may, Question(role(mine[1]), "secretsmanager:GetSecretValue", where, own)))
    (of_node,) = (identity_policies(platform, stack, name) for stack, name in found if name == node)
    asked.append((False, Question(role(node), "secretsmanager:GetSecretValue", f"{SECRET}:shared-AbCdEf", of_node)))
    bucket, theirs = bucket_of(platform)
    scripts = f"{bucket}/lifecycle_scripts/slurm-accounts.json"
    asked.append((True, Question(role(node), "s3:GetObject", scripts, of_node, theirs)))
    assert wrong(asked) == []


@pytest.mark.parametrize("orchestrator", sorted(NAMESPACES), indirect=True, scope="module")
def test_a_member_passes_the_role_of_the_own_team_alone(platform: Deployed, orchestrator: str) -> None:
    passed = {"iam:PassedToService": "sagemaker.amazonaws.com"}
    asked: Asked = []
    for team in ROLES:
        *_, (member, own) = roles_of(team, platform, orchestrator)
        for _, name in platform.of_type("AWS::IAM::Role"):
            arn = f"arn:aws:iam::{ACCOUNT}:role/{name}"
            mine = name.startswith(ROLES[team][1]) and name[:-8] == ROLES[team][1]
            asked.append((mine, Question(role(member), "iam:PassRole", arn, own, context=passed)))
    assert sum(may for may, _ in asked) == len(ROLES)
    assert wrong(asked) == []


@pytest.mark.parametrize(
    "orchestrator", with_representatives(sorted([*NAMESPACES, SLURM]), ["eks", SLURM]), indirect=True, scope="module"
)
def test_the_linter_finds_no_mistake_in_the_policies_of_teams(platform: Deployed, orchestrator: str) -> None:
    ours = [each for each in policies_of(platform) if each.kind == "identity" and "s3:prefix" in str(each.document)]
    # Viewers, and the role that tells people of events, read the records of all teams.
    teams = [each for each in ours if "EventsRole" not in each.where and "ViewerRole" not in each.where]
    assert len(teams) == sum(map(len, (SLURM_ROLES if orchestrator == SLURM else ROLES).values()))
    assert [message for _, issue, message in findings(ours) if issue.startswith(("invalid", "unknown"))] == []


def _all_prefixes(statement: Document, bucket: str) -> None:
    if "s3:PutObject" in statement["Action"]:
        statement["Resource"] = [f"{bucket}/checkpoints/*"]


def _without_the_slash(statement: Document, _bucket: str) -> None:
    if "s3:PutObject" in statement["Action"]:
        statement["Resource"] = [each.replace("/vision/*", "/vision*") for each in statement["Resource"]]


def _lists_everything(statement: Document, _bucket: str) -> None:
    if statement["Action"] == "s3:ListBucket":
        del statement["Condition"]


def _writes_what_is_shared(statement: Document, bucket: str) -> None:
    if "s3:PutObject" in statement["Action"]:
        statement["Resource"] = [*statement["Resource"], f"{bucket}/corpus/web/*"]


# One mistake shows, with each change, that the questions find one.
@pytest.mark.parametrize(
    "mistake",
    [
        _without_the_slash,
        *(
            pytest.param(each, marks=pytest.mark.exhaustive)
            for each in (_all_prefixes, _lists_everything, _writes_what_is_shared)
        ),
    ],
)
def test_a_mistake_in_a_policy_is_found(
    mistake: Callable[[Document, str], None], platform: Deployed, orchestrator: str
) -> None:
    broken = copy.deepcopy(platform)
    for policy in policies_of(broken):
        if policy.owner == "AWS::IAM::Policy" and "s3:prefix" in str(policy.document):
            for statement in policy.document["Statement"]:
                mistake(statement, bucket_of(platform)[0])
    assert wrong(questions(broken, orchestrator)) != []
