"""The tags of the platform file, on every resource whose tags can change while it exists."""

from __future__ import annotations

import aws_cdk as cdk

from trainway.spec.platform import Platform

# By its schema, a placement group's tags cannot change: another tag would replace it, and every node in it.
# CloudFormation passes the tags of a stack on to its resources, so stacks have none either.
WITHOUT_TAGS = ["AWS::EC2::PlacementGroup", "aws:cdk:stack"]


def tag_everything(app: cdk.App, platform: Platform) -> None:
    """Write the tags into the properties of the resources of all stacks.

    Nodes and their volumes get theirs from launch templates: trainway/spec/kubernetes/node_tags.py.
    """
    for key, value in sorted(platform.tags.items()):
        cdk.Tags.of(app).add(key, value, exclude_resource_types=WITHOUT_TAGS)
