"""The watch over a delivery pipeline: what tells CloudFormation of a failure that no script could tell."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.delivery.build_stage import BuildStage
from stacks.constructs.iam.permissions import Permission, grant, regional_arn, runbook_permissions
from stacks.constructs.iam.trust import service

# The newest of https://docs.aws.amazon.com/systems-manager/latest/userguide/automation-action-executeScript.html
RUNTIME = "python3.11"


class Watch(Construct):
    """A rule that starts a runbook when the pipeline has failed, and the runbook, whose script tells the conditions.

    A build that ends before its script runs tells nobody. The runbook runs in Systems Manager, and depends on none
    of what the build may lack: a network, a quota of CodeBuild, an image, or a role of the build. The rule has no
    queue for events that Automation refuses: its only parameter is the ID of an execution, and CloudFormation,
    which waits for the message, ends the deploy after its own time.
    """

    def __init__(self, scope: Construct, id: str, *, pipeline: str, stages: Sequence[BuildStage]) -> None:
        super().__init__(scope, id)
        name = f"{pipeline}-failed"
        role = iam.Role(self, "Role", assumed_by=service("ssm"))
        grant(
            role,
            Permission(("codepipeline:GetPipelineState",), (regional_arn("codepipeline", pipeline),)),
            Permission(("codebuild:BatchGetBuilds",), tuple(stage.project.attr_arn for stage in stages)),
            Permission(
                ("logs:GetLogEvents",),
                tuple(stage.logs.log_group_arn for stage in stages),
            ),
            Permission(
                ("ssm:GetParameters",),
                tuple(regional_arn("ssm", f"parameter{stage.signal_parameter}") for stage in stages),
            ),
        )
        self.runbook = ssm.CfnDocument(
            self,
            "Runbook",
            name=name,
            document_type="Automation",
            document_format="JSON",
            update_method="NewVersion",
            content=_content(role, pipeline, stages),
        )
        starter = iam.Role(self, "StarterRole", assumed_by=service("events"))
        runbook_arn = regional_arn("ssm", f"automation-definition/{name}:$DEFAULT")
        grant(starter, *runbook_permissions(runbook_arn, role))
        self.rule = events.CfnRule(
            self,
            "Rule",
            description=f"Tells CloudFormation why the pipeline {pipeline} failed",
            event_pattern={
                "source": ["aws.codepipeline"],
                "detail-type": ["CodePipeline Pipeline Execution State Change"],
                "detail": {"pipeline": [pipeline], "state": ["FAILED"]},
            },
            targets=[
                events.CfnRule.TargetProperty(
                    id="runbook",
                    arn=runbook_arn,
                    role_arn=starter.role_arn,
                    input_transformer=events.CfnRule.InputTransformerProperty(
                        input_paths_map={"run": "$.detail.execution-id"}, input_template='{"Run": [<run>]}'
                    ),
                )
            ],
        )
        self.rule.add_resource_dependency(self.runbook)
        self.rule.node.add_dependency(starter.node.find_child("DefaultPolicy"), role.node.find_child("DefaultPolicy"))


def _content(role: iam.Role, pipeline: str, stages: Sequence[BuildStage]) -> dict[str, object]:
    signals = {stage.name.capitalize(): stage.signal_parameter for stage in stages}
    return {
        "schemaVersion": "0.3",
        "description": f"Tells CloudFormation why the pipeline {pipeline} failed.",
        "assumeRole": role.role_arn,
        "parameters": {"Run": {"type": "String", "description": "ID of the pipeline's execution"}},
        "mainSteps": [
            {
                "name": "tell",
                "action": "aws:executeScript",
                "timeoutSeconds": 300,
                "maxAttempts": 3,
                "inputs": {
                    "Runtime": RUNTIME,
                    "Handler": "handler",
                    "Script": files("trainway.delivery").joinpath("tell_failure.py").read_text("utf-8"),
                    "InputPayload": {"pipeline": pipeline, "run": "{{ Run }}", "signals": signals},
                },
            }
        ],
    }
