"""The AWS managed collector of a cluster's metrics, and the workspace that it writes to."""

from __future__ import annotations

from collections.abc import Iterable

import aws_cdk as cdk
import yaml
from aws_cdk import aws_aps as aps
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.eks.eks_cluster import EksCluster
from stacks.constructs.monitoring.metrics_workspace import metrics_workspace
from trainway.monitoring.scraping import scrape_document
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform

# https://docs.aws.amazon.com/prometheus/latest/APIReference/API_EksConfiguration.html (read 2026-11-27)
MOST_SUBNETS = 5


def managed_collector(
    scope: Construct,
    *,
    cluster: EksCluster,
    platform: Platform,
    catalogue: Catalogue,
    subnet_ids: list[str],
    alarms_topic: str,
    people: Iterable[iam.Role],
) -> aps.CfnScraper:
    """Return the collector. It has a network interface in each of the subnets, in the security group of the cluster.

    AWS creates its service-linked role, and the access entry of that role with AmazonPrometheusScraperPolicy. EKS
    refuses access entries of others for such a role. A changed configuration updates the collector in place.
    https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-collector-how-to.html
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-aps-scraper.html
    (both read 2026-11-27)
    """
    workspace = metrics_workspace(
        scope, platform=platform, catalogue=catalogue, alarms_topic=alarms_topic, people=people
    )
    document = yaml.safe_dump(scrape_document(platform, catalogue), sort_keys=False, width=1000)
    return aps.CfnScraper(
        scope,
        "Collector",
        alias=platform.name,
        source=aps.CfnScraper.SourceProperty(
            eks_configuration=aps.CfnScraper.EksConfigurationProperty(
                cluster_arn=cluster.arn,
                subnet_ids=subnet_ids[:MOST_SUBNETS],
                security_group_ids=[cluster.security_group_id],
            )
        ),
        destination=aps.CfnScraper.DestinationProperty(
            amp_configuration=aps.CfnScraper.AmpConfigurationProperty(workspace_arn=workspace.attr_arn)
        ),
        scrape_configuration=aps.CfnScraper.ScrapeConfigurationProperty(configuration_blob=cdk.Fn.base64(document)),
    )
