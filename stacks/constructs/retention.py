"""Retention of resources with data, when their stack is deleted and when an update replaces them."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct

from trainway.spec.sections.storage import OnDestroy

KEEP, DELETE = cdk.CfnDeletionPolicy.RETAIN, cdk.CfnDeletionPolicy.DELETE


def keep_or_delete(on_destroy: OnDestroy, *resources: IConstruct) -> None:
    """Keep the resources when their stack is deleted, if the file says so: file systems, and what they depend on."""
    for resource in resources:
        _set(resource, KEEP if on_destroy == "keep" else DELETE)


def stays(*resources: IConstruct) -> None:
    """Keep the resources when their stack is deleted, and when an update replaces them."""
    for resource in resources:
        _set(resource, KEEP)


def goes_with_its_stack(*resources: IConstruct) -> None:
    """Delete the resources with their stack, and keep them when an update replaces them.

    By default, CloudFormation deletes replaced resources, and with them data that only they have.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-updatereplacepolicy.html (read
    2026-11-22)
    """
    for resource in resources:
        _set(resource, DELETE)


def _set(resource: IConstruct, when_its_stack_goes: cdk.CfnDeletionPolicy) -> None:
    found = resource if isinstance(resource, cdk.CfnResource) else resource.node.default_child
    assert isinstance(found, cdk.CfnResource)
    # Each attribute that is read is a message to the CDK's runtime.
    options = found.cfn_options
    options.deletion_policy = when_its_stack_goes
    options.update_replace_policy = KEEP
