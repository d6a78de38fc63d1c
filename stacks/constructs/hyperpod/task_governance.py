"""HyperPod's task governance: each team's guaranteed nodes, and the sharing of idle nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.sections.team import FAIR_SHARE, Team

Scheduler = sagemaker.CfnClusterSchedulerConfig


def task_governance(
    scope: Construct, *, platform: Platform, catalogue: Catalogue, cluster_arn: str, after: cdk.CfnResource
) -> None:
    """Create the cluster's policy, and a compute quota for each team.

    CDK has no class for the quotas, and CloudFormation has the policy only in some Regions. Without a policy, the
    service runs tasks first come, first served, and shares idle nodes.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance-policies.html
    (read 2026-11-21)
    """
    if platform.region in service_facts().hyperpod.scheduler_config_regions:
        policy = Scheduler(
            scope,
            "SchedulerPolicy",
            name=f"{platform.name}-policy",
            cluster_arn=cluster_arn,
            scheduler_config=Scheduler.SchedulerConfigProperty(
                fair_share="Enabled",
                idle_resource_sharing="Enabled",
                priority_classes=[
                    Scheduler.PriorityClassProperty(name=name, weight=weight) for name, weight in FAIR_SHARE.items()
                ],
            ),
        )
        policy.add_resource_dependency(after)
    nodes = Counter[str]()
    for group in platform.node_groups:
        # The limit for borrowing: the group may have up to this many nodes of any of its types.
        nodes.update(dict.fromkeys(group.instance_types, group.largest))
    for team in platform.teams:
        quota = cdk.CfnResource(
            scope,
            f"{''.join(part.capitalize() for part in team.name.split('-'))}Quota",
            type="AWS::SageMaker::ComputeQuota",
            properties={
                "Name": f"{platform.name}-{team.name}",
                "ClusterArn": cluster_arn,
                "ComputeQuotaTarget": {"TeamName": team.name, "FairShareWeight": team.fair_share},
                "ComputeQuotaConfig": _config(team, nodes, catalogue),
                "ActivationState": "Enabled",
            },
        )
        quota.add_resource_dependency(after)
        unknown = "CDK's copy of the registry has not heard of the type; cfn-lint's has, and checks it."
        cdk.Validations.of(quota).acknowledge(cdk.Acknowledgment(id="CloudFormation-Validate::F3006", reason=unknown))


def _config(team: Team, nodes: Counter[str], catalogue: Catalogue) -> dict[str, Any]:
    """Return the quota of guaranteed nodes. If the team borrows, it may have at most all other nodes of each type."""
    sharing: dict[str, Any] = {"Strategy": "Lend"}
    if team.borrow:
        limits = {name: count - team.guarantee.get(name, 0) for name, count in nodes.items()}
        # A limit for each type, because the limit in percent relates to the team's own nodes, which may be none.
        sharing = {"Strategy": "LendAndBorrow", "AbsoluteBorrowLimits": _resources(limits, catalogue)}
    return {
        "ComputeQuotaResources": _resources(team.guarantee, catalogue),
        "ResourceSharingConfig": sharing,
        "PreemptTeamTasks": "LowerPriority",
    }


def _resources(counts: dict[str, int], catalogue: Catalogue) -> list[dict[str, Any]]:
    return [{"InstanceType": catalogue[name].hyperpod_name, "Count": count} for name, count in counts.items() if count]
