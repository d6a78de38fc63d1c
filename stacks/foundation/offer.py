"""Export values of a stack for others, whether or not they import them today."""

from __future__ import annotations

import aws_cdk as cdk


def offer(stack: cdk.Stack, *values: str) -> None:
    """Export values of a stack that other stacks may import.

    The CDK exports only values that another stack uses. When a change of the platform file removes the use, the CDK
    removes the export, and CloudFormation refuses: the exporting stack is deployed first, while the other still imports
    the value. An export that always exists blocks no deploy. Values that are not attributes of a resource need no
    export.
    """
    for value in dict.fromkeys(values):
        if cdk.Token.is_unresolved(value):
            stack.export_value(value)
