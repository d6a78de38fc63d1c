"""Read the templates of a platform's deployed stacks from CloudFormation."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final

import yaml

from trainway.diff.account import AwsAccount
from trainway.diff.tokens import StackTemplate
from trainway.spec.errors import usage_error

# A stack in one of these states has no resources: nothing was deployed, or the first deploy failed and was undone.
EMPTY: Final = ("REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "DELETE_COMPLETE")


def deployed_templates(account: AwsAccount, platform: str, wanted: Collection[str]) -> dict[str, StackTemplate]:
    """Return the templates by name of the deployed stacks of a platform, and of the `wanted` ones that are deployed.

    Raises UsageError if the caller may not read them, or a stack is being changed.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    client = account.client("cloudformation")
    try:
        pages = client.get_paginator("describe_stacks").paginate()
        stacks = [stack for page in pages for stack in page["Stacks"] if _is_of(stack, platform, wanted)]
        for stack in stacks:
            if stack["StackStatus"].endswith("_IN_PROGRESS") and stack["StackStatus"] not in EMPTY:
                why = f"its status is {stack['StackStatus']}: a deploy or a deletion runs"
                raise usage_error(
                    f"the stack {stack['StackName']} cannot be compared", why=why, fix="wait until it ends"
                )
        names = [stack["StackName"] for stack in stacks if stack["StackStatus"] not in EMPTY]
        return {name: _template(client.get_template(StackName=name)["TemplateBody"]) for name in names}
    except (ClientError, BotoCoreError) as error:
        fix = "you need cloudformation:DescribeStacks and cloudformation:GetTemplate on the platform's stacks"
        raise usage_error("the deployed stacks cannot be read", why=str(error), fix=fix) from None


def _is_of(stack: dict[str, Any], platform: str, wanted: Collection[str]) -> bool:
    """Return whether the stack is wanted, or the platform's by the description that each of its stacks has."""
    described = str(stack.get("Description", "")).startswith(f"Trainway {platform}:")
    name = str(stack["StackName"])
    return name in wanted or (name.startswith(f"{platform}-") and described)


def _template(body: Any) -> StackTemplate:
    """Return a template that boto3 has read already if it is JSON."""
    if isinstance(body, str):
        body = json.loads(body) if body.lstrip().startswith("{") else yaml.safe_load(body)
    return dict(body)
