"""What becomes of a file system when its stack goes."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import CfnResource

from trainway.spec.sections.storage import OnDestroy


def keep_or_delete(on_destroy: OnDestroy, *resources: CfnResource) -> None:
    """Retains the resources, where that is chosen: a file system, and the security group its interfaces are in."""
    for resource in resources:
        if on_destroy == "keep":
            resource.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
