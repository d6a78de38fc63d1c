"""Delivery without Lambdas: a pipeline that `cdk deploy` starts and waits for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_codepipeline as codepipeline
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.delivery.build_stage import BuildStage
from stacks.constructs.delivery.bundle import Bundle
from stacks.constructs.delivery.watch import Watch
from stacks.constructs.iam.permissions import Permission, grant, needs_policies
from stacks.constructs.iam.trust import service

CfnPipeline = codepipeline.CfnPipeline
# Below the artifacts, where each stage keeps how its last attempt ended.
ATTEMPTS = "attempts"
# Once, also for a source: https://docs.aws.amazon.com/codepipeline/latest/userguide/stage-retry.html (read 2026-11-23)
RETRY_ONCE = CfnPipeline.FailureConditionsProperty(
    result="RETRY", retry_configuration=CfnPipeline.RetryConfigurationProperty(retry_mode="FAILED_ACTIONS")
)
ARTIFACT_NAMES = "Each run names its own artifacts, below the pipeline's prefix."


class Delivery(Construct):
    """A pipeline that runs build stages on the bundle, in order, and makes CloudFormation wait for each.

    CloudFormation starts the pipeline by creating or updating it (`RestartExecutionOnUpdate`). Every stage signals a
    WaitCondition whose logical id carries a hash of the bundle and of what the stages are told in their environment. A
    new hash means a new condition, so a deploy waits for its own build. A stage that fails runs once more. If that
    fails too, it sends the last lines of its log, and the deploy fails with them. For a build that ends before its
    script runs, the Watch does so. A resource that needs a stage depends on `stage_done[name]`.

    Each action of the pipeline has the hash and the values that only the deploy knows, such as the id of a file system,
    so that CloudFormation updates the pipeline, and with it starts the stages, when one of them changes. `variables`
    are what a person who starts the pipeline can set, with their defaults; each is in the environment of every stage.
    Where pipelines of a platform have stages of the same names, `of` tells them apart.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        bundle: Bundle,
        bucket: s3.IBucket,
        steps: Sequence[Sequence[BuildStage]],
        after: Sequence[cdk.CfnResource] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
        of: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        archive = bundle.archive(Path(cast(cdk.Stage, cdk.Stage.of(self)).outdir) / "bundles")
        # By its files' content: the bytes of an archive depend on the Python that writes it, too.
        source = assets.Asset(self, "Bundle", path=str(archive), asset_hash=bundle.content)
        stages = [stage for step in steps for stage in step]
        content = _content(bundle, steps)
        handles = {
            stage: cdk.CfnWaitConditionHandle(self, f"{stage.name.capitalize()}Handle{content}") for stage in stages
        }
        signals = [_signal(self, stage, handle) for stage, handle in handles.items()]
        # CodePipeline keeps artifacts below the first twenty characters of the pipeline's name (AWS re:Post,
        # "CodePipeline truncates folder names in output artifact S3 bucket", read 2026-11-21).
        prefix = name[:20]
        artifacts = f"{bucket.bucket_arn}/{prefix}/*"
        attempts = f"{prefix}/{ATTEMPTS}{f'/{of}' if of else ''}"
        role = _role(self, source=source, bucket=bucket, artifacts=artifacts, stages=stages)
        told_by_the_run = {
            "STAGE_ATTEMPTS": f"s3://{bucket.bucket_name}/{attempts}",
            "STAGE_RUN": "#{codepipeline.PipelineExecutionId}",
            **{each: f"#{{variables.{each}}}" for each in variables},
        }
        build_stages = (
            _build_stage(f"Step{number}", step, content, told_by_the_run) for number, step in enumerate(steps, start=1)
        )
        self.pipeline = _pipeline(
            self, name, role, bucket, stages=[_source_stage(source), *build_stages], variables=variables
        )
        watch = Watch(self, "Watch", pipeline=name, stages=stages)
        self.pipeline.add_resource_dependency(watch.rule)
        # A build that began before its URL was there would report to the delivery before this one.
        for resource in (*after, *signals):
            self.pipeline.add_resource_dependency(resource)
        # A first run that starts before its role may do anything fails, and nothing would start a second one.
        needs_policies(self.pipeline, role, *(stage.role for stage in stages))
        self.stage_done: dict[str, cdk.CfnWaitCondition] = {}
        for stage in stages:
            _grant_artifacts(stage, artifacts, f"{bucket.bucket_arn}/{attempts}/{stage.name}")
            done = _wait_condition(self, stage, content, handles[stage], _wait_seconds(steps, stage))
            done.add_resource_dependency(self.pipeline)
            self.stage_done[stage.name] = done


def _wait_seconds(steps: Sequence[Sequence[BuildStage]], stage: BuildStage) -> int:
    """Return how long CloudFormation waits for a stage at most, which it does only if nobody tells it of a failure.

    That is ten minutes to be scheduled, and for each step up to the stage's one attempt that ends at its limit and one
    that takes as long as usual.
    """
    seconds = 600
    for step in steps:
        longest = [stage] if stage in step else step
        seconds += max(60 * (each.times.limit + each.times.usual) for each in longest)
        if stage in step:
            return seconds
    raise ValueError(f"the stage {stage.name} is in no step")


def _role(
    scope: Construct, *, source: assets.Asset, bucket: s3.IBucket, artifacts: str, stages: Sequence[BuildStage]
) -> iam.Role:
    role = iam.Role(scope, "Role", assumed_by=service("codepipeline"))
    inspect = ("s3:GetBucketVersioning", "s3:GetBucketAcl", "s3:GetBucketLocation")
    read = ("s3:GetObject", "s3:GetObjectVersion")
    grant(
        role,
        Permission(inspect, (source.bucket.bucket_arn, bucket.bucket_arn)),
        Permission(read, (source.bucket.arn_for_objects(source.s3_object_key),)),
        Permission((*read, "s3:PutObject"), (artifacts,), because=ARTIFACT_NAMES),
        Permission(
            ("codebuild:StartBuild", "codebuild:BatchGetBuilds"), tuple(stage.project.attr_arn for stage in stages)
        ),
    )
    return role


def _grant_artifacts(stage: BuildStage, artifacts: str, attempts: str) -> None:
    grant(
        stage.role,
        Permission(("s3:GetObject", "s3:GetObjectVersion"), (artifacts,), because=ARTIFACT_NAMES),
        Permission(("s3:PutObject",), (attempts,)),
    )


def _source_stage(source: assets.Asset) -> CfnPipeline.StageDeclarationProperty:
    return CfnPipeline.StageDeclarationProperty(
        name="Source",
        on_failure=RETRY_ONCE,
        actions=[
            CfnPipeline.ActionDeclarationProperty(
                name="Bundle",
                action_type_id=_action_type("Source", "S3"),
                configuration={
                    "S3Bucket": source.s3_bucket_name,
                    "S3ObjectKey": source.s3_object_key,
                    "PollForSourceChanges": "false",
                },
                output_artifacts=[CfnPipeline.OutputArtifactProperty(name="Bundle")],
            )
        ],
    )


def _signal(scope: Construct, stage: BuildStage, handle: cdk.CfnWaitConditionHandle) -> ssm.CfnParameter:
    """Create the parameter with the URL of the stage's wait condition."""
    return ssm.CfnParameter(
        scope,
        f"{stage.name.capitalize()}Signal",
        name=stage.signal_parameter,
        type="String",
        value=handle.ref,
        description=f"Where the delivery stage {stage.name} reports how it ended",
    )


def _wait_condition(
    scope: Construct, stage: BuildStage, content: str, handle: cdk.CfnWaitConditionHandle, seconds: int
) -> cdk.CfnWaitCondition:
    """Create the wait condition that the stage signals. CloudFormation waits for the signal for at most `seconds`."""
    return cdk.CfnWaitCondition(
        scope, f"{stage.name.capitalize()}Done{content}", handle=handle.ref, count=1, timeout=str(seconds)
    )


def _pipeline(
    scope: Construct,
    name: str,
    role: iam.Role,
    bucket: s3.IBucket,
    *,
    stages: Sequence[CfnPipeline.StageDeclarationProperty],
    variables: Mapping[str, str],
) -> CfnPipeline:
    """Create the pipeline. CloudFormation starts it when it creates or updates the pipeline."""
    return CfnPipeline(
        scope,
        "Pipeline",
        name=name,
        pipeline_type="V2",
        role_arn=role.role_arn,
        restart_execution_on_update=True,
        variables=[
            CfnPipeline.VariableDeclarationProperty(name=each, default_value=default)
            for each, default in variables.items()
        ]
        or None,
        artifact_store=CfnPipeline.ArtifactStoreProperty(type="S3", location=bucket.bucket_name),
        stages=list(stages),
    )


def _content(bundle: Bundle, steps: Sequence[Sequence[BuildStage]]) -> str:
    """Return the hash of what is built, of what each stage is told, and of how long it is waited for.

    CloudFormation updates no condition, so another time limit needs another condition, too. All stages share a hash,
    because a pipeline runs as a whole and each of its stages then reports again.
    """
    stages = [stage for step in steps for stage in step]
    told = {stage.name: stage.told() for stage in stages}
    limits = {stage.name: _wait_seconds(steps, stage) for stage in stages}
    text = json.dumps([bundle.content, told, limits], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _told(stage: BuildStage, content: str, told_by_the_run: Mapping[str, str]) -> str:
    """Return the action's environment variables.

    STAGE_CONTENT is read by no stage: it makes the action differ from the last one. An action's settings end at 1,000
    characters each: ActionConfigurationValue in botocore's model of CodePipeline.
    """
    variables = {"STAGE_CONTENT": " ".join([content, *stage.told_by_the_deploy()]), **told_by_the_run}
    return json.dumps([{"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()])


def _build_stage(
    name: str, step: Sequence[BuildStage], content: str, told_by_the_run: Mapping[str, str]
) -> CfnPipeline.StageDeclarationProperty:
    return CfnPipeline.StageDeclarationProperty(
        name=name,
        on_failure=RETRY_ONCE,
        actions=[
            CfnPipeline.ActionDeclarationProperty(
                name=stage.name.capitalize(),
                action_type_id=_action_type("Build", "CodeBuild"),
                configuration={
                    "ProjectName": stage.project.ref,
                    "EnvironmentVariables": _told(stage, content, told_by_the_run),
                },
                input_artifacts=[CfnPipeline.InputArtifactProperty(name="Bundle")],
            )
            for stage in step
        ],
    )


def _action_type(category: str, provider: str) -> CfnPipeline.ActionTypeIdProperty:
    return CfnPipeline.ActionTypeIdProperty(category=category, owner="AWS", provider=provider, version="1")
