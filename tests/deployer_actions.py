"""The IAM actions of each resource type of the templates: `python -m tests.deployer_actions` writes them."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from typing import Any

from emulator.registry.schema import load
from tests.diff import sources
from tests.synthesis import ROOT
from trainway.preflight.deployer import ACTIONS_FILE

REGION = "us-east-1"
# Types whose schema names no actions: the calls of their API, and what these require of others. The names are those of
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awscodebuild.html and list_amazonfsx.html
# (read 2026-11-25).
BY_HAND = {
    "AWS::CloudFormation::WaitCondition": [],
    "AWS::CloudFormation::WaitConditionHandle": [],
    "AWS::CodeBuild::Project": [
        "codebuild:BatchGetProjects",
        "codebuild:CreateProject",
        "codebuild:DeleteProject",
        "codebuild:UpdateProject",
        "iam:PassRole",
    ],
    "AWS::FSx::FileSystem": [
        "fsx:CreateFileSystem",
        "fsx:DeleteFileSystem",
        "fsx:DescribeFileSystems",
        "fsx:ListTagsForResource",
        "fsx:TagResource",
        "fsx:UntagResource",
        "fsx:UpdateFileSystem",
        "iam:CreateServiceLinkedRole",
    ],
}
# The handlers of IAM's policies name calls for users and groups, to which no template attaches a policy.
NOT_CALLED = re.compile(r"iam:\w*(User|Group)\w*")


def document() -> dict[str, Any]:
    """Return the content of the file."""
    return {
        "source": {
            "what": "handlers of the CloudFormation registry's schemas, of cfn-lint 1.58.0; CodeBuild and FSx by hand",
            "url": "https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-schema.html",
            "read": "2026-11-25",
        },
        "types": {kind: actions_of(kind) for kind in sorted({*sources.types(), *types_of_the_stacks()})},
    }


def types_of_the_stacks() -> Iterator[str]:
    """Yield the types of the classes that the stacks name, also of those that no example has."""
    for file in sorted((ROOT / "stacks").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if line.startswith(("from aws_cdk", "import aws_cdk"))]
        words = sorted(set(re.findall(r"\baws_(?!cdk\b)\w+", " ".join(lines))))
        for module in [importlib.import_module(f"aws_cdk.{word}") for word in words]:
            for name in sorted(set(re.findall(r"\bCfn[A-Z]\w+", text))):
                if kind := getattr(getattr(module, name, None), "CFN_RESOURCE_TYPE_NAME", None):
                    yield kind


def actions_of(kind: str) -> list[str]:
    """Return the actions of all handlers of a type."""
    if kind in BY_HAND:
        return BY_HAND[kind]
    handlers = load(kind, REGION).document["handlers"].values()
    named = {action for handler in handlers for action in handler.get("permissions", [])}
    return sorted(action for action in named if not NOT_CALLED.fullmatch(action))


def text() -> str:
    """Return the file, with a line for each type."""
    made = document()
    lines = [f"    {json.dumps(kind)}: {json.dumps(actions)}" for kind, actions in made["types"].items()]
    return f'{{\n  "source": {json.dumps(made["source"])},\n  "types": {{\n' + ",\n".join(lines) + "\n  }\n}\n"


if __name__ == "__main__":
    ACTIONS_FILE.write_text(text(), encoding="utf-8")
