"""A CodeBuild project that runs one of the delivery scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.constructs.iam.acknowledge import acknowledge
from stacks.constructs.iam.permissions import LOOK_AT_NETWORK, Permission, grant, needs_policies, regional_arn
from stacks.constructs.iam.trust import service
from stacks.constructs.monitoring.log_group import log_group, use_log_key
from trainway.spec.deployment.stage_times import StageTimes

# Ubuntu, with docker, git, jq, kubectl and Python: https://github.com/aws/aws-codebuild-docker-images (read 2026-11-21)
BUILD_IMAGE = "aws/codebuild/standard:8.0"
# The script ends itself this long before CodeBuild would, because a killed build can no longer say why.
TIME_TO_REPORT = cdk.Duration.minutes(3)
# A build that the account's quota keeps waiting fails after this long instead of CodeBuild's eight hours.
# https://docs.aws.amazon.com/codebuild/latest/APIReference/API_CreateProject.html (read 2026-11-23)
QUEUED = cdk.Duration.minutes(10)


@dataclass(frozen=True)
class BuildNetwork:
    """Where builds run that must not leave the VPC, and the environment variables of the proxy to the internet."""

    vpc_id: str
    subnet_ids: list[str]
    security_group_ids: list[str]
    proxy: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BuildMachine:
    """The machine of a build. `docker` gives it a Docker daemon.

    `network` is None for a build outside of any VPC, which has the internet.
    """

    compute_type: str = "BUILD_GENERAL1_SMALL"
    docker: bool = False
    network: BuildNetwork | None = None


@dataclass(frozen=True)
class StageInputs:
    """The environment variables of a stage, and what decides whether it runs again.

    `environment` is what the script asks for. With the bundle, it decides whether the stage runs again. `stands_for`
    has what its values stand for and do not show, such as the definition of a file system. `parameters` are variables
    that CodeBuild reads from SSM parameters when the stage runs, with the names of those.
    """

    environment: Mapping[str, str]
    stands_for: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)


class BuildStage(Construct):
    """`delivery/stage.sh NAME` in a container, with its own role and log group.

    The limit of `times` ends an attempt that hangs. Where pipelines of a platform have a stage of the same name, `of`
    tells them apart.

    The URL that the stage signals is read from `signal_parameter` when it runs: it changes with every delivery, and is
    too long for a pipeline's action, whose settings end at 1,000 characters.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: str,
        name: str,
        inputs: StageInputs,
        permissions: Sequence[Permission],
        times: StageTimes,
        machine: BuildMachine,
        of: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.name = name
        self.inputs = inputs
        self.times = times
        self.logs = log_group(self, "Logs", retention=logs.RetentionDays.THREE_MONTHS)
        self.role = iam.Role(self, "Role", assumed_by=service("codebuild"))
        write_logs = ("logs:CreateLogStream", "logs:PutLogEvents")
        self.signal_parameter = f"/trainway/{platform}/delivery/{name}{f'/{of}' if of else ''}"
        read_signal = Permission(("ssm:GetParameters",), (regional_arn("ssm", f"parameter{self.signal_parameter}"),))
        grant(self.role, Permission(write_logs, (self.logs.log_group_arn,)), use_log_key(self), read_signal)
        grant(self.role, *permissions)
        if machine.network:
            grant(self.role, *_inside(machine.network))
        self.project = self._project(machine)
        if machine.network:
            # CodeBuild looks at the network with the role's permissions as it creates the project.
            needs_policies(self.project, self.role)
        if machine.docker:
            acknowledge(self.project, "Building an image needs a Docker daemon, which needs it.", "AwsSolutions-CB3")

    def _project(self, machine: BuildMachine) -> codebuild.CfnProject:
        """Create the project of the stage.

        L1, because the L2 project grants itself wildcard actions on logs, reports and the network.
        """
        network = machine.network
        proxy = network.proxy if network else {}
        return codebuild.CfnProject(
            self,
            "Project",
            service_role=self.role.role_arn,
            source=codebuild.CfnProject.SourceProperty(
                type="CODEPIPELINE", build_spec=_build_spec(self.name, has_proxy=bool(proxy))
            ),
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="CODEPIPELINE"),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type="LINUX_CONTAINER",
                image=BUILD_IMAGE,
                compute_type=machine.compute_type,
                privileged_mode=machine.docker,
                environment_variables=self._variables({**self.inputs.environment, **proxy}),
            ),
            encryption_key=cdk.Stack.of(self).format_arn(service="kms", resource="alias", resource_name="aws/s3"),
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=self.logs.log_group_name
                )
            ),
            timeout_in_minutes=self.times.limit,
            queued_timeout_in_minutes=QUEUED.to_minutes(),
            vpc_config=codebuild.CfnProject.VpcConfigProperty(
                vpc_id=network.vpc_id, subnets=network.subnet_ids, security_group_ids=network.security_group_ids
            )
            if network
            else None,
        )

    def told(self) -> dict[str, Any]:
        """Return what decides that the stage runs again, as far as it is known before the deploy.

        A value that only the deploy knows is the expression that CloudFormation computes it by.
        """
        expressions: dict[str, Any] = cdk.Stack.of(self).resolve(dict(self.inputs.environment))
        return {"environment": expressions, "stands_for": dict(self.inputs.stands_for)}

    def told_by_the_deploy(self) -> list[str]:
        """Return the values of the environment that name resources, which only the deploy knows."""
        expressions = self.told()["environment"]
        named = (name for name, value in sorted(expressions.items()) if _names_a_resource(value))
        return [self.inputs.environment[name] for name in named]

    def _variables(self, environment: Mapping[str, str]) -> list[codebuild.CfnProject.EnvironmentVariableProperty]:
        variable = codebuild.CfnProject.EnvironmentVariableProperty
        limit = 60 * self.times.limit - int(TIME_TO_REPORT.to_seconds())
        plain = {**environment, "STAGE_TIMEOUT_SECONDS": str(limit)}
        return [
            variable(name="WAIT_HANDLE_URL", type="PARAMETER_STORE", value=self.signal_parameter),
            *(variable(name=key, value=value) for key, value in sorted(plain.items())),
            *(
                variable(name=key, type="PARAMETER_STORE", value=name)
                for key, name in sorted(self.inputs.parameters.items())
            ),
        ]


def _names_a_resource(expression: Any) -> bool:
    """Return whether an expression refers to a resource, and not only to the account, the Region, or the partition."""
    if isinstance(expression, dict):
        if "Ref" in expression:
            return not str(expression["Ref"]).startswith("AWS::")
        if "Fn::GetAtt" in expression or "Fn::ImportValue" in expression:
            return True
        return any(map(_names_a_resource, expression.values()))
    return isinstance(expression, list) and any(map(_names_a_resource, expression))


def _inside(network: BuildNetwork) -> list[Permission]:
    """Return the permissions with which a build gets an address in the VPC.

    https://docs.aws.amazon.com/codebuild/latest/userguide/auth-and-access-control-iam-identity-based-access-control.html
    (Allow CodeBuild access to AWS services required to create a VPC network interface; read 2026-11-21)
    """
    interfaces, each_build = regional_arn("ec2", "network-interface/*"), "Each build makes a network interface."
    subnets = tuple(regional_arn("ec2", f"subnet/{subnet}") for subnet in network.subnet_ids)
    groups = tuple(regional_arn("ec2", f"security-group/{group}") for group in network.security_group_ids)
    return [
        Permission(("ec2:CreateNetworkInterface",), (interfaces, *subnets, *groups), because=each_build),
        Permission(("ec2:DeleteNetworkInterface",), (interfaces,), because=each_build),
        Permission(
            ("ec2:CreateNetworkInterfacePermission",),
            (interfaces,),
            because=each_build,
            conditions={
                "StringEquals": {"ec2:AuthorizedService": "codebuild.amazonaws.com"},
                "ArnEquals": {"ec2:Subnet": list(subnets)},
            },
        ),
        Permission(LOOK_AT_NETWORK, ("*",), because="EC2's Describe has no resource type."),
    ]


def _build_spec(name: str, *, has_proxy: bool) -> str:
    """Return what the build does. With a proxy, CodeBuild's own agent uses it as well.

    https://docs.aws.amazon.com/codebuild/latest/userguide/run-codebuild-in-explicit-proxy-server.html (read 2026-11-23)
    """
    spec: dict[str, Any] = {"version": "0.2", "phases": {"build": {"commands": [f"bash delivery/stage.sh {name}"]}}}
    return json.dumps(spec | ({"proxy": {"upload-artifacts": "yes", "logs": "yes"}} if has_proxy else {}))
