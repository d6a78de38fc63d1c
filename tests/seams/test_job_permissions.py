"""What a job's role may do: the prefixes of jobs, the secrets of its team, and what a permissions boundary leaves."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.seams.evaluator import BY_IAM, Question, allowed, role
from tests.seams.policies import EVERYTHING, Change, Document, identity_policies, policies_of, without_conditions
from tests.seams.resolved import ACCOUNT, Deployed, deploy, deployed_of
from tests.seams.seam import Planted, Seam
from tests.seams.shapes import platforms, some_and_all_platforms
from tests.synthesis import EXAMPLES, templates_of
from trainway.manifests.namespace import namespace_of
from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_accounts import ACCOUNTS_DOCUMENT
from trainway.spec.slurm.slurm_users import USERS_DOCUMENT

# Roles that a job's processes have: of pods, of SageMaker's training jobs, and of HyperPod's nodes, which also read the
# lifecycle scripts, and under Slurm the teams and the users.
POD, TRAINING_JOB, NODE = "KubernetesJob", "TrainingJobRole", "ExecutionRole"
# Those that read secrets, on Kubernetes and under Slurm.
OF_SECRETS = {True: (POD, TRAINING_JOB), False: (NODE, TRAINING_JOB)}


def job_questions(platform: Deployed) -> Iterator[tuple[bool, Question]]:
    """Yield what a job's role may and may not do with the data bucket."""
    bucket = next(
        each["Bucket"] for (_, name), each in platform.of_type("AWS::S3::BucketPolicy").items() if "DataBucket" in name
    )
    theirs = next(
        each["PolicyDocument"]
        for each in platform.of_type("AWS::S3::BucketPolicy").values()
        if each["Bucket"] == bucket
    )
    for stack, name in platform.of_type("AWS::IAM::Role"):
        if not name.startswith((POD, TRAINING_JOB, NODE)):
            continue
        own, principal = identity_policies(platform, stack, name), role(name)
        arn = f"arn:aws:s3:::{bucket}"
        for prefix, may in (("corpus", True), ("checkpoints", True), ("runs", True), ("lifecycle_scripts", False)):
            for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
                node_reads = name.startswith(NODE) and action == "s3:GetObject"
                yield may or node_reads, Question(principal, action, f"{arn}/{prefix}/a", own, theirs)
        if name.startswith(NODE):
            for location in read_by_nodes(platform):
                yield True, Question(principal, "s3:GetObject", f"arn:aws:s3:::{location}", own, theirs)
        yield True, Question(principal, "s3:ListBucket", arn, own, theirs)
        yield False, Question(principal, "s3:PutBucketPolicy", arn, own, theirs)
        yield False, Question(principal, "s3:GetObject", "arn:aws:s3:::another-bucket/corpus/a", own)


def read_by_nodes(platform: Deployed) -> Iterator[str]:
    """Yield the objects that HyperPod's nodes fetch, by what the scripts stage is told, as BUCKET/KEY."""
    for project in platform.of_type("AWS::CodeBuild::Project").values():
        variables = {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}
        if "LIFECYCLE_S3_URI" in variables:
            yield f"{variables['LIFECYCLE_S3_URI'].removeprefix('s3://')}/on_create.sh"
        if "TRAINWAY_DOCUMENTS_S3_URI" in variables:
            for document in (ACCOUNTS_DOCUMENT, USERS_DOCUMENT):
                yield f"{variables['TRAINWAY_DOCUMENTS_S3_URI'].removeprefix('s3://')}/{document}.json"


@pytest.mark.parametrize("names", some_and_all_platforms())
def test_a_job_reaches_the_prefixes_of_jobs_and_nothing_else(names: tuple[str, ...]) -> None:
    """Platforms whose teams have prefixes of their own are in tests/security/test_team_data.py."""
    shared = [name for name in names if not platforms()[name].storage.bucket.team_prefixes]
    asked = [each for name in shared for each in job_questions(deployed_of(name))]
    answers = allowed([question for _, question in asked])
    wrong = [
        (may, question.action, question.resource)
        for (may, question), answer in zip(asked, answers, strict=True)
        if may != answer
    ]
    roles = {str(question.principal).split("/")[1] for _, question in asked}
    assert all(any(name.startswith(kind) for name in roles) for kind in (POD, TRAINING_JOB, NODE))
    assert wrong == []


def secret_questions(platform: Deployed, described: Platform) -> Iterator[tuple[bool, Question]]:
    """Yield which secrets a job's role may read: those of all jobs, and of a pod those of its team."""
    namespaces = {namespace_of(described, team): team.name for team in described.teams}
    via = {"kms:ViaService": f"secretsmanager.{platform.region}.amazonaws.com"}
    for stack, name in platform.of_type("AWS::IAM::Role"):
        if not name.startswith(OF_SECRETS[described.orchestrator.is_kubernetes]):
            continue
        own, principal = identity_policies(platform, stack, name), role(name)
        for namespace, team in {"": "", **(namespaces if name.startswith(POD) else {})}.items():
            tag = {"aws:PrincipalTag/kubernetes-namespace": namespace} if namespace else {}
            for each in described.secrets:
                may = not each.teams or team in each.teams
                yield may, Question(principal, "secretsmanager:GetSecretValue", each.secret, own, context=tag)
                if each.key:
                    yield may, Question(principal, "kms:Decrypt", each.key, own, BY_IAM, context={**tag, **via})
                    yield False, Question(principal, "kms:Decrypt", each.key, own, BY_IAM, context=tag)
        other = f"arn:aws:secretsmanager:{platform.region}:{ACCOUNT}:secret:another-AbCdEf"
        yield False, Question(principal, "secretsmanager:GetSecretValue", other, own)


def misread(platform: Deployed, described: Platform) -> list[str]:
    """Return the secrets that a job can read and must not, or cannot read and must."""
    asked = list(secret_questions(platform, described))
    answers = allowed([question for _, question in asked])
    return [
        f"{question.principal} {question.action} {question.resource} {question.context}: {answer}"
        for (may, question), answer in zip(asked, answers, strict=True)
        if may != answer
    ]


def test_a_job_reads_the_secrets_of_all_jobs_and_of_its_team_and_no_others() -> None:
    with_secrets = {name: each for name, each in platforms().items() if each.secrets}
    assert {each.orchestrator.is_kubernetes for each in with_secrets.values()} == {True, False}
    wrong = {name: misread(deployed_of(name), each) for name, each in with_secrets.items()}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_a_permissions_boundary_bounds_a_role_that_may_do_more(tmp_path: Path) -> None:
    """The boundary of the file is that of every role, and the evaluator takes it into account."""
    arn = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
    file = tmp_path / "platform.yaml"
    written = yaml.safe_load(next(each for each in EXAMPLES if each.stem == "hyperpod-slurm-p5en").read_text())
    # Nodes have the data of all teams.
    shared = written["storage"] | {"bucket": {"team_prefixes": False}}
    changed = {**written, "storage": shared, "iam": {"permissions_boundary": arn}}
    file.write_text(yaml.safe_dump(changed), encoding="utf-8")
    platform = deploy(templates_of(file), written["region"])
    roles = platform.of_type("AWS::IAM::Role")
    assert {each.get("PermissionsBoundary") for each in roles.values()} == {arn}
    ((stack, name),) = (each for each in roles if each[1].startswith(NODE))
    bucket = next(
        each["Bucket"] for (_, id), each in platform.of_type("AWS::S3::BucketPolicy").items() if "DataBucket" in id
    )
    own, only_s3 = identity_policies(platform, stack, name), copy.deepcopy(EVERYTHING)
    only_s3["Statement"][0]["Action"] = "s3:*"
    log = f"arn:aws:logs:{platform.region}:{ACCOUNT}:log-group:/aws/sagemaker/Clusters/a:log-stream:a"
    asked = [
        Question(role(name), action, resource, own, boundary=boundary)
        for action, resource in (("s3:GetObject", f"arn:aws:s3:::{bucket}/corpus/a"), ("logs:PutLogEvents", log))
        for boundary in (None, only_s3)
    ]
    assert allowed(asked) == [True, True, True, False]


def secrets_evaluated(error: str, change: Change) -> Planted:
    """Plant an error in the policies by which the jobs of several teams read secrets."""

    def read(change: Change | None, _: Path) -> list[str]:
        platform = copy.deepcopy(deployed_of("several-teams"))
        for policy in policies_of(platform) if change else ():
            if policy.owner == "AWS::IAM::Policy" and "secretsmanager:" in str(policy.document):
                assert change
                change(policy.document)
        return misread(platform, platforms()["several-teams"])

    return Planted(error, sound=partial(read, None), broken=partial(read, change))


def all_secrets(document: Document) -> None:
    for statement in document["Statement"]:
        if "secretsmanager:" in str(statement["Action"]):
            statement["Resource"] = "*"


SEAMS = (
    Seam(
        artifact="policies by which jobs read secrets",
        rendered_by="stacks/constructs/iam/secret_permissions.py",
        reader="@cloud-copilot/iam-simulate, which answers what a job of each team may read",
        instead="IAM runs only in AWS.",
        planted=(
            secrets_evaluated("the secrets of a team have no condition", without_conditions),
            secrets_evaluated("jobs read every secret of the account", all_secrets),
        ),
    ),
)
