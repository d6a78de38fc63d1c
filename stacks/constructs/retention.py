"""What becomes of a resource with data when its stack goes, and when another one takes its place."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct

from trainway.spec.sections.storage import OnDestroy

KEEP, DELETE = cdk.CfnDeletionPolicy.RETAIN, cdk.CfnDeletionPolicy.DELETE


def keep_or_delete(on_destroy: OnDestroy, *resources: IConstruct) -> None:
    """Keep the resources when their stack goes if the file says so: file systems, and what they cannot do without."""
    for resource in resources:
        _set(resource, KEEP if on_destroy == "keep" else DELETE)


def goes_with_its_stack(*resources: IConstruct) -> None:
    """Delete the resources when their stack goes, and keep them when an update puts others in their place.

    CloudFormation deletes what an update replaces, unless it is told otherwise, and with it what only the old one has.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-updatereplacepolicy.html
    (read 2026-11-22)
    """
    for resource in resources:
        _set(resource, DELETE)


def _set(resource: IConstruct, when_its_stack_goes: cdk.CfnDeletionPolicy) -> None:
    found = resource if isinstance(resource, cdk.CfnResource) else resource.node.default_child
    assert isinstance(found, cdk.CfnResource)
    found.cfn_options.deletion_policy = when_its_stack_goes
    found.cfn_options.update_replace_policy = KEEP
