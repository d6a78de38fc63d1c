"""What cfn-lint is told to pass over, because the lists that it compares with are not complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from constructs import Construct


def pass_over(scope: Construct, checks: Mapping[str, Sequence[str]]) -> None:
    """Tell cfn-lint to pass over checks of the resources below `scope`, by their type."""
    for resource in scope.node.find_all() if checks else ():
        if isinstance(resource, cdk.CfnResource) and (ignored := checks.get(resource.cfn_resource_type)):
            resource.add_metadata("cfn-lint", {"config": {"ignore_checks": list(ignored)}})
