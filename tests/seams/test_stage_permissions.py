"""A stage's role may do everything that the stage calls, on the resources that the calls name, and little more."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.representatives import representatives_and_every
from tests.seams.call_permissions import Needed, needed
from tests.seams.evaluator import Question, allowed, role
from tests.seams.policies import Document, identity_policies
from tests.seams.resolved import ACCOUNT, Deployed, deployed_of
from tests.seams.seam import Planted, Seam
from tests.seams.shapes import platforms
from tests.seams.stage_calls import Stage, recorded, run_stage, stages_of
from tests.synthesis import ROOT
from trainway.monitoring.tell_people import TOLD
from trainway.spec.handoff_names import DEFAULT_IMAGE

# Between them these have every stage, in and out of a closed network.
PLATFORMS = ("platform", "closed-hyperpod-eks", "hyperpod-eks-shared", "slurm-homes")
# The one that builds a Dockerfile in its stage `additions`. Its other stages are those of other platforms.
WITH_DOCKERFILE = "neuron"
# What `make test` tries: the stages of a cluster on Kubernetes, and those of nodes with Slurm.
REPRESENTATIVES = ("platform", "slurm-homes")
# What reads like a call of the AWS CLI in delivery/ and is none of a stage: a call of supply.sh, which a person runs, a
# command in a message, and a list of tools.
NO_STAGE = {"ssm get-parameter", "sagemaker describe-cluster", "git curl"}
# Actions that no recorded call needs: the stages, by platform and name, the actions, and why the role has them.
NOT_CALLED = (
    (".*", {"kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"}, "CloudWatch Logs uses the log group's key."),
    (".* cluster", {"ecr:DescribeImages"}, "One list of actions serves all readers of a repository."),
    (
        ".* (base|additions|image)|(?!closed).* mirror",
        {"ecr:GetDownloadUrlForLayer"},
        "One list of actions serves all readers of a repository.",
    ),
)


def stage_needs(platform: str, stage: Stage, calls: Sequence[Sequence[str]]) -> set[Needed]:
    """Return the permissions that a stage's own calls need, and those of CodeBuild on behalf of it."""
    deployed = deployed_of(platform)
    return {each for call in calls for each in needed(call, deployed.region)} | set(codebuild_needs(deployed, stage))


def codebuild_needs(platform: Deployed, stage: Stage) -> Iterator[Needed]:
    """Yield what CodeBuild does in the stage's role.

    From CodeBuild's user guide as its repository was archived in 2023: setting-up (logs, the input in S3),
    build-spec-ref (parameter-store), auth-and-access-control-iam-identity-based-access-control (a VPC's network
    interfaces), in https://github.com/awsdocs/aws-codebuild-user-guide (read 2026-11-22).
    """
    at = f"{platform.region}:{ACCOUNT}"
    group = stage.properties["LogsConfig"]["CloudWatchLogs"]["GroupName"]
    for action in ("logs:CreateLogStream", "logs:PutLogEvents"):
        yield action, f"arn:aws:logs:{at}:log-group:{group}:log-stream:a"
    yield "ssm:GetParameters", f"arn:aws:ssm:{at}:parameter{parameter_of(stage)}"
    for action in ("s3:GetObject", "s3:GetObjectVersion"):
        yield action, f"{artifacts_of(platform, stage)}/Bundle/a"
    # What delivery/stage.sh keeps of an attempt that failed.
    attempts = "attempts" if stage.image == DEFAULT_IMAGE else f"attempts/{stage.image}"
    yield "s3:GetObject", f"{artifacts_of(platform, stage)}/{attempts}/{stage.name}"
    yield "s3:PutObject", f"{artifacts_of(platform, stage)}/{attempts}/{stage.name}"
    if profile := stage.environment.get("SIGNING_PROFILE"):
        # ECR, which signs what is pushed in the name of whoever pushes:
        # https://docs.aws.amazon.com/AmazonECR/latest/userguide/managed-signing.html (read 2026-11-23)
        yield "signer:SignPayload", profile
    if "VpcConfig" in stage.properties:
        inside = stage.properties["VpcConfig"]
        interface = f"arn:aws:ec2:{at}:network-interface/eni-1"
        yield from (("ec2:CreateNetworkInterface", f"arn:aws:ec2:{at}:subnet/{each}") for each in inside["Subnets"])
        for each in inside["SecurityGroupIds"]:
            yield "ec2:CreateNetworkInterface", f"arn:aws:ec2:{at}:security-group/{each}"
        for action in ("CreateNetworkInterface", "CreateNetworkInterfacePermission", "DeleteNetworkInterface"):
            yield f"ec2:{action}", interface
        for thing in ("DhcpOptions", "NetworkInterfaces", "SecurityGroups", "Subnets", "Vpcs"):
            yield f"ec2:Describe{thing}", "*"


def pipeline_needs(platform: Deployed, pipeline: dict[str, Any]) -> Iterator[Needed]:
    """Yield what CodePipeline does in the pipeline's role.

    Its two actions on CodeBuild are in its user guide as the repository was archived in 2023: security-iam in
    https://github.com/awsdocs/aws-codepipeline-user-guide (read 2026-11-22). The list of its actions on S3 is ours: no
    page that has one could be read.
    """
    store = f"arn:aws:s3:::{pipeline['ArtifactStore']['Location']}"
    source = pipeline["Stages"][0]["Actions"][0]["Configuration"]
    for bucket in (store, f"arn:aws:s3:::{source['S3Bucket']}"):
        for action in ("s3:GetBucketVersioning", "s3:GetBucketAcl", "s3:GetBucketLocation"):
            yield action, bucket
    for action in ("s3:GetObject", "s3:GetObjectVersion"):
        yield action, f"arn:aws:s3:::{source['S3Bucket']}/{source['S3ObjectKey']}"
        yield action, f"{store}/{pipeline['Name'][:20]}/Bundle/a"
    yield "s3:PutObject", f"{store}/{pipeline['Name'][:20]}/Bundle/a"
    for each in pipeline["Stages"][1:]:
        for action in each["Actions"]:
            project = f"arn:aws:codebuild:{platform.region}:{ACCOUNT}:project/{action['Configuration']['ProjectName']}"
            yield "codebuild:StartBuild", project
            yield "codebuild:BatchGetBuilds", project


def parameter_of(stage: Stage) -> str:
    variables = stage.properties["Environment"]["EnvironmentVariables"]
    (name,) = [each["Value"] for each in variables if each.get("Type") == "PARAMETER_STORE"]
    return str(name)


def artifacts_of(platform: Deployed, stage: Stage) -> str:
    """Return the ARN of the prefix that the stage's pipeline keeps its artifacts below."""
    for (stack, _), pipeline in platform.of_type("AWS::CodePipeline::Pipeline").items():
        actions = [action for each in pipeline["Stages"][1:] for action in each["Actions"]]
        if stack == stage.stack and stage.project in {each["Configuration"]["ProjectName"] for each in actions}:
            return f"arn:aws:s3:::{pipeline['ArtifactStore']['Location']}/{pipeline['Name'][:20]}"
    raise AssertionError(f"no pipeline runs {stage.name}")


def denied(needs: set[Needed], principal: str, policies: Sequence[Document]) -> list[Needed]:
    """Return those of the permissions that the policies do not give."""
    subnet = next((resource for _, resource in sorted(needs) if ":subnet/" in resource), "")
    context = {
        "ec2:CreateNetworkInterfacePermission": {
            "ec2:AuthorizedService": "codebuild.amazonaws.com",
            "ec2:Subnet": subnet,
        },
        # The only role that a role of these passes is that of a runbook.
        "iam:PassRole": {"iam:PassedToService": "ssm.amazonaws.com"},
    }
    asked = sorted(needs)
    questions = [
        Question(
            role(principal),
            action,
            resource,
            policies,
            context=context.get(action, {}),
            account=_account(resource),
        )
        for action, resource in asked
    ]
    return [each for each, may in zip(asked, allowed(questions), strict=True) if not may]


def _account(resource: str) -> str:
    parts = resource.split(":")
    return parts[4] if len(parts) > 4 and parts[4] else ACCOUNT


def granted(policies: Sequence[Document]) -> set[str]:
    actions = [statement["Action"] for policy in policies for statement in policy["Statement"]]
    return {name for each in actions for name in ([each] if isinstance(each, str) else each)}


def own_policies(platform: str, stage: Stage) -> tuple[str, list[Document]]:
    """Return the name of a stage's role, and its policies."""
    name = stage.properties["ServiceRole"].rpartition("/")[2]
    return name, identity_policies(deployed_of(platform), stage.stack, name)


@cache
def calls_of_the_stages() -> set[str]:
    """Return every `aws SERVICE OPERATION` that a script of delivery/ has, but in a comment."""
    lines = [line for file in (ROOT / "delivery").rglob("*.sh") for line in file.read_text().splitlines()]
    found = [re.findall(r"\baws ([a-z0-9]+ [a-z0-9-]+)", line.partition("# ")[0]) for line in lines]
    return {call for calls in found for call in calls}


def accepted(stage: str) -> set[str]:
    """Return the actions that a stage's role may have without a call that needs them."""
    return {action for stages, actions, _ in NOT_CALLED if re.fullmatch(stages, stage) for action in actions}


def every_stage(names: Sequence[str]) -> Iterator[tuple[str, Stage]]:
    """Yield each stage of platforms with the name of its platform."""
    for platform in names:
        if platform == WITH_DOCKERFILE:
            yield WITH_DOCKERFILE, stage_of(WITH_DOCKERFILE, "additions")
        else:
            yield from ((platform, stage) for stage in stages_of(deployed_of(platform)))


def stage_of(platform: str, name: str) -> Stage:
    return next(each for each in stages_of(deployed_of(platform)) if each.name == name)


@pytest.mark.parametrize("names", representatives_and_every((*PLATFORMS, WITH_DOCKERFILE), REPRESENTATIVES))
def test_each_stage_may_do_what_it_calls_and_its_role_has_no_new_right_that_it_never_uses(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    refused, unused, recorded_names = {}, {}, set()
    for platform, stage in every_stage(names):
        directory = tmp_path / platform / stage.image / stage.name
        directory.mkdir(parents=True)
        calls = recorded(platform, stage, directory)
        if stage.environment.get("SIGNING_PROFILE"):
            unsigned = directory / "unsigned"
            unsigned.mkdir()
            calls += run_stage(platforms()[platform], stage, unsigned, is_signed=False)
        needs = stage_needs(platform, stage, calls)
        name, policies = own_policies(platform, stage)
        if found := denied(needs, name, policies):
            refused[f"{platform} {stage.image} {stage.name}"] = found
        if left := granted(policies) - {action for action, _ in needs} - accepted(f"{platform} {stage.name}"):
            unused[f"{platform} {stage.image} {stage.name}"] = sorted(left)
        recorded_names |= {" ".join(call[1:3]) for call in calls if call[0] == "aws"}
    assert refused == {}
    assert unused == {}
    there = calls_of_the_stages() - NO_STAGE
    assert recorded_names <= there
    if WITH_DOCKERFILE in names:
        assert there == recorded_names, "a call that no run reached is one that nobody checked"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_pipeline_may_do_what_codepipeline_does_for_it(platform: str) -> None:
    deployed = deployed_of(platform)
    for (stack, _), pipeline in deployed.of_type("AWS::CodePipeline::Pipeline").items():
        name = pipeline["RoleArn"].rpartition("/")[2]
        policies, needs = identity_policies(deployed, stack, name), set(pipeline_needs(deployed, pipeline))
        assert denied(needs, name, policies) == []
        assert granted(policies) <= {action for action, _ in needs}


def watch_needs(platform: Deployed, stack: str, pipeline: str) -> Iterator[Needed]:
    """Yield what trainway/delivery/tell_failure.py calls in the role of a pipeline's runbook."""
    at = f"{platform.region}:{ACCOUNT}"
    yield "codepipeline:GetPipelineState", f"arn:aws:codepipeline:{at}:{pipeline}"
    for stage in stages_of(platform):
        if stage.stack == stack and artifacts_of(platform, stage).endswith(f"/{pipeline[:20]}"):
            group = stage.properties["LogsConfig"]["CloudWatchLogs"]["GroupName"]
            yield "codebuild:BatchGetBuilds", f"arn:aws:codebuild:{at}:project/{stage.project}"
            yield "logs:GetLogEvents", f"arn:aws:logs:{at}:log-group:{group}:log-stream:a"
            yield "ssm:GetParameters", f"arn:aws:ssm:{at}:parameter{parameter_of(stage)}"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_runbook_of_each_pipeline_may_do_what_its_script_calls_and_the_rule_may_start_it(platform: str) -> None:
    deployed = deployed_of(platform)
    rules = deployed.of_type("AWS::Events::Rule")
    for (stack, _), document in deployed.of_type("AWS::SSM::Document").items():
        if not document["Name"].endswith("-failed"):
            continue
        pipeline = document["Name"].removesuffix("-failed")
        role = document["Content"]["assumeRole"]
        name = role.rpartition("/")[2]
        policies, needs = identity_policies(deployed, stack, name), set(watch_needs(deployed, stack, pipeline))
        assert denied(needs, name, policies) == []
        assert granted(policies) == {action for action, _ in needs}
        (target,) = [
            each["Targets"][0]
            for (of, _), each in rules.items()
            if of == stack and each["EventPattern"]["detail"].get("pipeline") == [pipeline]
        ]
        starter = target["RoleArn"].rpartition("/")[2]
        asked = {("ssm:StartAutomationExecution", target["Arn"]), ("iam:PassRole", role)}
        assert denied(asked, starter, identity_policies(deployed, stack, starter)) == []


def name_of(payload: Document) -> str:
    """Return the name of the queue of events."""
    return str(payload["queue"]).rpartition("/")[2]


def event_questions(platform: Deployed, stack: str, document: Document) -> Iterator[Question]:
    """Yield a question for each call of trainway/monitoring/tell_people.py, in the role of the runbook of events."""
    payload = document["Content"]["mainSteps"][0]["inputs"]["InputPayload"]
    name = document["Content"]["assumeRole"].rpartition("/")[2]
    policies = identity_policies(platform, stack, name)
    (topic,) = platform.of_type("AWS::SNS::Topic").values()
    bucket = f"arn:aws:s3:::{payload['bucket']}"

    def question(action: str, resource: str, **context: str) -> Question:
        return Question(role(name), action, resource, policies, context=context, account=_account(resource))

    yield question("sns:Publish", payload["topic"])
    for action in ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"):
        yield question(action, payload["topic"].rpartition(":")[0].replace(":sns:", ":sqs:") + f":{name_of(payload)}")
    # KMS asks the policy of the key as well.
    (key,) = [each["KeyPolicy"] for (of, _), each in platform.of_type("AWS::KMS::Key").items() if of == stack]
    for action in ("kms:Decrypt", "kms:GenerateDataKey"):
        yield replace(question(action, topic["KmsMasterKeyId"]), resource_policy=key)
    kinds = payload["kinds"].values()
    if any(kind["node"] for kind in kinds):
        for prefix in payload["prefixes"]:
            yield question("s3:ListBucket", bucket, **{"s3:prefix": prefix})
            yield question("s3:GetObject", f"{bucket}/{prefix}run.state")
    # What one of several runbooks tells, the others do not.
    for action in ("s3:GetObject", "s3:PutObject"):
        yield question(action, f"{bucket}/{TOLD}0")
    calls = {"instance": "ec2:DescribeInstances", "group": "autoscaling:DescribeAutoScalingGroups"}
    yield from (question(calls[kind], "*") for kind in sorted({each["tagged"][0] for each in kinds if each["tagged"]}))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_runbook_of_events_may_do_what_its_script_calls_and_no_more(platform: str) -> None:
    deployed = deployed_of(platform)
    documents = deployed.of_type("AWS::SSM::Document").items()
    ((stack, _), document), *others = [each for each in documents if each[1]["Name"].endswith("-events")]
    assert not others
    questions = list(event_questions(deployed, stack, document))
    assert [each for each, may in zip(questions, allowed(questions), strict=True) if not may] == []
    assert granted(questions[0].policies) == {each.action for each in questions}
    readings = [each for each in questions if each.action == "s3:GetObject"]
    weights = [replace(each, resource=f"{each.resource.partition('/')[0]}/checkpoints/a/weights") for each in readings]
    assert not any(allowed(weights)), "the runbook reads the records of runs, and no checkpoints"
    rules = [each for (of, _), each in deployed.of_type("AWS::Events::Rule").items() if of == stack]
    targets = [target for each in rules for target in each["Targets"]]
    queued = [each["Arn"] for each in targets if each["Id"] == "queue"]
    starts = [each for each in targets if f"/{document['Name']}:" in each["Arn"]]
    payload = document["Content"]["mainSteps"][0]["inputs"]["InputPayload"]
    assert len(starts) == len(queued) == len(payload["kinds"])
    assert set(queued) == {each.resource for each in questions if each.action.startswith("sqs:")}
    (policy,) = [each for (of, _), each in deployed.of_type("AWS::SQS::QueuePolicy").items() if of == stack]
    (lets_in,) = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
    account = lets_in["Condition"]["StringEquals"]["aws:SourceAccount"]
    assert lets_in["Condition"]["ArnLike"]["aws:SourceArn"].endswith(f":{account}:rule/*")
    assert lets_in["Principal"] == {"Service": "events.amazonaws.com"}
    for target in starts:
        assert json.loads(target["Input"]).keys() == document["Content"]["parameters"].keys()
        starter = target["RoleArn"].rpartition("/")[2]
        asked = {
            ("ssm:StartAutomationExecution", target["Arn"]),
            ("iam:PassRole", document["Content"]["assumeRole"]),
        }
        assert denied(asked, starter, identity_policies(deployed, stack, starter)) == []


def planted(
    error: str, name: str, change: Callable[[list[Document]], Any], platform: str = "hyperpod-eks-shared"
) -> Planted:
    """Plant an error in the policies of a stage's role."""

    def read(change: Callable[[list[Document]], Any] | None, directory: Path) -> list[str]:
        stage = stage_of(platform, name)
        needs = stage_needs(platform, stage, recorded(platform, stage, directory))
        principal, policies = own_policies(platform, stage)
        policies = copy.deepcopy(policies)
        if change:
            change(policies)
        return [f"{action} on {resource}" for action, resource in denied(needs, principal, policies)]

    return Planted(error, sound=partial(read, None), broken=partial(read, change))


def without(action: str, policies: list[Document]) -> None:
    for policy in policies:
        for statement in policy["Statement"]:
            if isinstance(statement["Action"], list) and action in statement["Action"]:
                statement["Action"].remove(action)
        policy["Statement"] = [each for each in policy["Statement"] if each["Action"] not in (action, [])]


def on_another_prefix(policies: list[Document]) -> None:
    for policy in policies:
        for statement in policy["Statement"]:
            if "s3:PutObject" in statement["Action"]:
                statement["Resource"] = "arn:aws:s3:::another-bucket/*"


def on_the_images_only(policies: list[Document]) -> None:
    for policy in policies:
        for statement in policy["Statement"]:
            if "ecr:PutImage" in statement["Action"]:
                statement["Resource"] = statement["Resource"].replace("/mirror/training-base", "/training")


def with_a_boundary_of_its_own(policies: list[Document]) -> None:
    deny = {"Effect": "Deny", "NotAction": "s3:*", "Resource": "*"}
    policies.append({"Version": "2012-10-17", "Statement": [deny]})


SEAMS = (
    Seam(
        artifact="Roles of the delivery stages and of their pipelines",
        rendered_by="stacks/constructs/delivery/build_stage.py",
        reader="@cloud-copilot/iam-simulate, asked for each call that a run of the stage's script makes, and for what "
        "CodeBuild and CodePipeline document that they do in the role",
        instead="IAM runs only in AWS.",
        planted=(
            planted("an action is missing from a stage's role", "image", partial(without, "ecr:PutImage")),
            planted("a stage's role may write to another bucket only", "scripts", on_another_prefix),
            planted("a statement denies all but S3", "image", with_a_boundary_of_its_own),
            planted(
                "the stage of image.packages cannot read the login of the package index",
                "additions",
                partial(without, "secretsmanager:GetSecretValue"),
                platform="slurm-homes",
            ),
            planted(
                "the stage of image.dockerfile may push to the repository of the images only",
                "additions",
                on_the_images_only,
                platform=WITH_DOCKERFILE,
            ),
        ),
    ),
)
