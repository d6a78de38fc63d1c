"""What a stack exports for others, whether or not they import it today."""

from __future__ import annotations

import aws_cdk as cdk


def offer(stack: cdk.Stack, *values: str) -> None:
    """Export values of a stack that other stacks may import.

    The CDK exports what another stack uses. When the platform file changes and the use goes, the export goes too, and
    CloudFormation refuses: the stack that exports is deployed first, while the other still imports. An export that is
    always there holds no deploy back. Values that are no attribute of a resource need no export.
    """
    for value in dict.fromkeys(values):
        if cdk.Token.is_unresolved(value):
            stack.export_value(value)
