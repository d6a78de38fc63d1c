"""A CodeBuild project that runs one of the delivery scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.permissions import Permission, grant, regional_arn

# Ubuntu, with docker, git, jq, kubectl and Python: https://github.com/aws/aws-codebuild-docker-images (read 2026-11-21)
BUILD_IMAGE = "aws/codebuild/standard:8.0"
# The script ends itself this long before CodeBuild would, because a killed build can no longer say why.
TIME_TO_REPORT = cdk.Duration.minutes(3)


class BuildStage(Construct):
    """`delivery/stage.sh NAME` in a container, with its own role and log group.

    `environment` is what the script asks for. The URL that it signals is read from `signal_parameter` when it runs: it
    changes with every delivery, and is too long for a pipeline's action, whose settings end at 1,000 characters. L1,
    because the L2 project grants itself wildcard actions on logs, reports and the network.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: str,
        name: str,
        environment: Mapping[str, str],
        permissions: Sequence[Permission],
        timeout: cdk.Duration,
        compute_type: str = "BUILD_GENERAL1_SMALL",
        docker: bool = False,
    ) -> None:
        super().__init__(scope, id)
        self.name = name
        self.timeout = timeout
        log_group = logs.LogGroup(
            self, "Logs", retention=logs.RetentionDays.THREE_MONTHS, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("codebuild.amazonaws.com"))
        write_logs = ("logs:CreateLogStream", "logs:PutLogEvents")
        self.signal_parameter = f"/trainway/{platform}/delivery/{name}"
        read_signal = Permission(("ssm:GetParameters",), (regional_arn("ssm", f"parameter{self.signal_parameter}"),))
        grant(self.role, Permission(write_logs, (log_group.log_group_arn,)), read_signal, *permissions)
        self.project = codebuild.CfnProject(
            self,
            "Project",
            service_role=self.role.role_arn,
            source=codebuild.CfnProject.SourceProperty(type="CODEPIPELINE", build_spec=_build_spec(name)),
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="CODEPIPELINE"),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type="LINUX_CONTAINER",
                image=BUILD_IMAGE,
                compute_type=compute_type,
                privileged_mode=docker,
                environment_variables=self._variables(environment),
            ),
            encryption_key=cdk.Stack.of(self).format_arn(service="kms", resource="alias", resource_name="aws/s3"),
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=log_group.log_group_name
                )
            ),
            timeout_in_minutes=timeout.to_minutes(),
        )
        if docker:
            acknowledge(self.project, "Building an image needs a Docker daemon, which needs it.", "AwsSolutions-CB3")

    def _variables(self, environment: Mapping[str, str]) -> list[codebuild.CfnProject.EnvironmentVariableProperty]:
        variable = codebuild.CfnProject.EnvironmentVariableProperty
        limit = int(self.timeout.to_seconds() - TIME_TO_REPORT.to_seconds())
        plain = {**environment, "STAGE_TIMEOUT_SECONDS": str(limit)}
        return [
            variable(name="WAIT_HANDLE_URL", type="PARAMETER_STORE", value=self.signal_parameter),
            *(variable(name=key, value=value) for key, value in sorted(plain.items())),
        ]


def _build_spec(name: str) -> str:
    return json.dumps({"version": "0.2", "phases": {"build": {"commands": [f"bash delivery/stage.sh {name}"]}}})
