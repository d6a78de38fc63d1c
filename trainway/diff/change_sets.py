"""Create, read, and delete a CloudFormation change set for each stack."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trainway.diff.account import AwsAccount
from trainway.diff.assembly import SynthesizedStack
from trainway.diff.tokens import StackTemplate

# A template above this size is read from S3 (CloudFormation API reference, CreateChangeSet, TemplateBody).
LARGEST_BODY: Final = 51_200
SECONDS_BETWEEN_LOOKS: Final = 2
MOST_SECONDS: Final = 300
CAPABILITIES: Final = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
NO_CHANGES: Final = ("didn't contain changes", "No updates are to be performed")

# The CDK marks parameters of SSM whose values say nothing about resources, for example the bootstrap's version.
SKIPPED: Final = "[cdk:skip]"


@dataclass(frozen=True)
class Answered:
    """CloudFormation's answer for one stack: the changes of its resources by logical ID, or why there is no answer."""

    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    failure: str = ""


def may_change(template: StackTemplate, deployed: StackTemplate | None) -> bool:
    """Return whether CloudFormation may find a change although no resource's definition differs.

    The rest of the template may differ, or a parameter of SSM may have another value. Otherwise the CDK's command line
    skips the stack, too.
    """
    return template != deployed or any(
        str(each.get("Type")).startswith("AWS::SSM::Parameter::") and SKIPPED not in each.get("Description", "")
        for each in template.get("Parameters", {}).values()
    )


def ask(account: AwsAccount, stacks: Mapping[str, SynthesizedStack], deployed: Collection[str]) -> dict[str, Answered]:
    """Return CloudFormation's answer for each stack. `deployed` are the names of those that are there.

    Nothing is left behind: neither a change set, nor the empty stack that the change set of a new one begins with.
    """
    name = f"trainway-diff-{uuid.uuid4().hex[:12]}"
    asked: dict[str, str] = {}
    try:
        for stack in stacks.values():
            asked[stack.name] = _create(account, stack, name, exists=stack.name in deployed)
        return {
            each: Answered(failure=failure) if failure else _read(account, stacks[each], name)
            for each, failure in asked.items()
        }
    finally:
        for each, failure in asked.items():
            if not failure:
                _delete(account, stacks[each], name, exists=each in deployed)


def _create(account: AwsAccount, stack: SynthesizedStack, name: str, *, exists: bool) -> str:
    """Ask for a change set. Returns why CloudFormation takes none, or an empty text."""
    from botocore.exceptions import BotoCoreError, ClientError

    request: dict[str, Any] = {
        "StackName": stack.name,
        "ChangeSetName": name,
        "ChangeSetType": "UPDATE" if exists else "CREATE",
        "Description": "Made by trainway diff, which deletes it",
        "Capabilities": CAPABILITIES,
        "ImportExistingResources": True,
    }
    if stack.execution_role:
        request["RoleARN"] = account.filled(stack.execution_role)
    try:
        if len(stack.text.encode()) > LARGEST_BODY:
            request["TemplateURL"] = _upload(account, stack)
        else:
            request["TemplateBody"] = stack.text
        _client(account, stack).create_change_set(**request)
    except (ClientError, BotoCoreError) as error:
        return str(error)
    return ""


def _upload(account: AwsAccount, stack: SynthesizedStack) -> str:
    """Put a template where the deploy will put the same, under the hash of its content. Returns its URL."""
    bucket, _, key = account.filled(stack.url).removeprefix("s3://").partition("/")
    s3 = account.client("s3", stack.publishing_role)
    s3.put_object(Bucket=bucket, Key=key, Body=stack.text.encode())
    suffix = "amazonaws.com.cn" if account.partition == "aws-cn" else "amazonaws.com"
    return f"https://{bucket}.s3.{account.region}.{suffix}/{key}"


def _read(account: AwsAccount, stack: SynthesizedStack, name: str) -> Answered:
    from botocore.exceptions import BotoCoreError, ClientError

    client = _client(account, stack)
    deadline = time.monotonic() + MOST_SECONDS
    try:
        while True:
            pages = list(_pages(client, stack.name, name))
            status, reason = pages[0]["Status"], pages[0].get("StatusReason", "")
            if status == "CREATE_COMPLETE" or (status == "FAILED" and any(each in reason for each in NO_CHANGES)):
                listed = [each["ResourceChange"] for page in pages for each in page["Changes"]]
                return Answered({each["LogicalResourceId"]: each for each in listed})
            if status == "FAILED":
                return Answered(failure=reason)
            if time.monotonic() > deadline:
                return Answered(failure=f"its change set is {status} after {MOST_SECONDS} s")
            time.sleep(SECONDS_BETWEEN_LOOKS)
    except (ClientError, BotoCoreError) as error:
        return Answered(failure=str(error))


def _pages(client: Any, stack: str, name: str) -> Iterator[dict[str, Any]]:
    more: dict[str, str] = {}
    while True:
        page = client.describe_change_set(StackName=stack, ChangeSetName=name, IncludePropertyValues=True, **more)
        yield page
        if not page.get("NextToken"):
            return
        more = {"NextToken": page["NextToken"]}


def _delete(account: AwsAccount, stack: SynthesizedStack, name: str, *, exists: bool) -> None:
    """Delete the change set, and the stack in REVIEW_IN_PROGRESS that one of the type CREATE leaves."""
    from contextlib import suppress

    from botocore.exceptions import BotoCoreError, ClientError

    client = _client(account, stack)
    with suppress(ClientError, BotoCoreError):
        client.delete_change_set(StackName=stack.name, ChangeSetName=name)
        if exists:
            return
        (found,) = client.describe_stacks(StackName=stack.name)["Stacks"]
        # Somebody's deploy may have begun meanwhile.
        if found["StackStatus"] == "REVIEW_IN_PROGRESS":
            client.delete_stack(StackName=stack.name)


def _client(account: AwsAccount, stack: SynthesizedStack) -> Any:
    return account.client("cloudformation", stack.deploy_role)
