"""Every IAM policy document that a deployed platform has, by its kind."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.seams.resolved import Deployed

Document = dict[str, Any]
# An edit that plants an error in a policy.
Change = Callable[[Document], Any]
EVERYTHING: Document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
# Resource types with a policy document of their own: the property that holds it, and the document's kind.
DOCUMENTS = {
    "AWS::EC2::VPCEndpoint": ("PolicyDocument", "endpoint"),
    "AWS::ECR::Repository": ("RepositoryPolicyText", "resource"),
    "AWS::IAM::Policy": ("PolicyDocument", "identity"),
    "AWS::IAM::Role": ("AssumeRolePolicyDocument", "trust"),
    "AWS::KMS::Key": ("KeyPolicy", "resource"),
    "AWS::S3::BucketPolicy": ("PolicyDocument", "resource"),
    "AWS::SQS::QueuePolicy": ("PolicyDocument", "resource"),
    "AWS::SNS::TopicPolicy": ("PolicyDocument", "resource"),
}


@dataclass(frozen=True)
class Policy:
    """A policy document; `kind` is `identity`, `trust`, `resource` or `endpoint`, and `owner` the resource's type."""

    where: str
    owner: str
    kind: str
    document: Document


def policies_of(platform: Deployed) -> Iterator[Policy]:
    """Yield every policy document of a platform."""
    for owner, (key, kind) in DOCUMENTS.items():
        for (role, name), properties in platform.of_type(owner).items():
            if key in properties:
                yield Policy(f"{role}/{name}", owner, kind, properties[key])
    for (role, name), properties in platform.of_type("AWS::IAM::Role").items():
        for inline in properties.get("Policies", []):
            yield Policy(
                f"{role}/{name}/{inline['PolicyName']}", "AWS::IAM::Role", "identity", inline["PolicyDocument"]
            )


def identity_policies(platform: Deployed, stack: str, role: str) -> list[Document]:
    """Return the documents of a role's policies, managed ones among them; `role` is its logical ID."""
    properties = platform.resources[stack][role]
    name = properties.get("RoleName", role)
    attached = [
        each["PolicyDocument"]
        for (owner, _), each in platform.of_type("AWS::IAM::Policy").items()
        if owner == stack and name in each["Roles"]
    ]
    managed = [managed_policy(arn.rpartition("/")[2]) for arn in properties.get("ManagedPolicyArns", [])]
    return attached + managed + [inline["PolicyDocument"] for inline in properties.get("Policies", [])]


def managed_policy(name: str) -> Document:
    """Return an AWS managed policy, as moto records it, as a copy. Raises KeyError if there is none of that name."""
    document: Document = copy.deepcopy(_managed()[name]["Document"])
    return document


def without_conditions(document: Document) -> None:
    """Remove the conditions of the statements that allow something."""
    for statement in document["Statement"]:
        if statement["Effect"] == "Allow":
            statement.pop("Condition", None)


@cache
def _managed() -> dict[str, Any]:
    from moto.iam.aws_managed_policies import aws_managed_policies_data

    found: dict[str, Any] = json.loads(aws_managed_policies_data)
    return found
