"""The workspace of a platform in Amazon Managed Service for Prometheus, with the platform's alarms."""

from __future__ import annotations

from collections.abc import Iterable

import aws_cdk as cdk
import yaml
from aws_cdk import aws_aps as aps
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.iam.permissions import Permission, grant
from stacks.constructs.retention import goes_with_its_stack
from trainway.monitoring.alert_manager import alert_manager_definition
from trainway.monitoring.rules import rule_document
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff_names import metrics_workspace_alias
from trainway.spec.platform import Platform


def metrics_workspace(
    scope: Construct, *, platform: Platform, catalogue: Catalogue, alarms_topic: str, people: Iterable[iam.Role]
) -> aps.CfnWorkspace:
    """Return the workspace. Its alarms go to the topic, and the roles of people may query it, for `trainway top`."""
    workspace = aps.CfnWorkspace(
        scope,
        "Metrics",
        alias=metrics_workspace_alias(platform.name, is_hyperpod=platform.orchestrator.is_hyperpod),
        alert_manager_definition=alert_manager_definition(alarms_topic, cdk.Aws.REGION),
    )
    goes_with_its_stack(workspace)
    aps.CfnRuleGroupsNamespace(
        scope,
        "Alarms",
        name="trainway",
        workspace=workspace.attr_arn,
        data=yaml.safe_dump(rule_document(platform, catalogue), sort_keys=False, width=1000),
    )
    for each in people:
        listed = Permission(("aps:ListWorkspaces",), ("*",), because="lists workspaces, and has no other resource")
        grant(each, Permission(("aps:DescribeWorkspace", "aps:QueryMetrics"), (workspace.attr_arn,)), listed)
    return workspace


def workspace_endpoint(workspace: aps.CfnWorkspace) -> str:
    """Return the address of a workspace without the slash at the end of its own attribute, as in AWS's module."""
    return f"https://aps-workspaces.{cdk.Aws.REGION}.{cdk.Aws.URL_SUFFIX}/workspaces/{workspace.attr_workspace_id}"
