"""Whether IAM allows a request, by @cloud-copilot/iam-simulate, which evaluates policies as AWS documents it.

It knows explicit denies, NotAction and NotResource, wildcards, every condition operator, permission boundaries,
resource policies, and access between accounts. It refuses an action, a resource type, or a policy that does not exist.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.seams.resolved import ACCOUNT
from tests.synthesis import ROOT

EVALUATE = ROOT / "tests" / "seams" / "evaluate.mjs"
ANONYMOUS = {"type": "Anonymous"}
ONE_AT_A_TIME = threading.Lock()
Document = dict[str, Any]
# The key policy that leaves the use of a key to the account's IAM policies. AWS creates keys with it:
# https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html (read 2026-11-23)
BY_IAM: Document = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ],
}


@dataclass(frozen=True)
class Question:
    """May `principal` do `action` on `resource`?

    `principal` is an ARN, or `ANONYMOUS`. `account` owns the resource. `policies` are the principal's own,
    `boundary` its permissions boundary, and `resource_policy` that of the resource. `context` has condition keys.
    """

    principal: str | dict[str, str]
    action: str
    resource: str
    policies: Sequence[Document] = ()
    resource_policy: Document | None = None
    boundary: Document | None = None
    context: Mapping[str, str | list[str]] = field(default_factory=dict)
    account: str = ACCOUNT


def role(name: str, account: str = ACCOUNT) -> str:
    """Return the ARN of a session of a role."""
    return f"arn:aws:sts::{account}:assumed-role/{name}/session"


def allowed(questions: Sequence[Question]) -> list[bool]:
    """Return for each question whether IAM allows the request. Raises ValueError for an invalid question or policy."""
    with ONE_AT_A_TIME:
        evaluator = _evaluator()
        assert evaluator.stdin is not None and evaluator.stdout is not None
        evaluator.stdin.write(json.dumps([_simulation(question) for question in questions]) + "\n")
        evaluator.stdin.flush()
        answers = evaluator.stdout.readline()
    assert answers, "the evaluator has ended"
    return _answers(questions, answers)


@cache
def _evaluator() -> subprocess.Popen[str]:
    """Start the IAM evaluator, once for each Python process. The evaluator reads requests until that process ends."""
    node = Path(sys.executable).with_name("node")
    return subprocess.Popen([node, EVALUATE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _answers(questions: Sequence[Question], text: str) -> list[bool]:
    answers = json.loads(text)
    wrong = [
        f"{question.action} on {question.resource}: {answer['errors']}"
        for question, answer in zip(questions, answers, strict=True)
        if answer["result"] == "Error"
    ]
    if wrong:
        raise ValueError("\n".join(wrong))
    return [answer["result"] == "Allowed" for answer in answers]


def _simulation(question: Question) -> dict[str, Any]:
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    own = [{"name": str(number), "policy": policy} for number, policy in enumerate(question.policies)]
    anonymous = question.principal == ANONYMOUS
    simulation: dict[str, Any] = {
        "request": {
            "principal": question.principal,
            "action": question.action,
            "resource": {"resource": question.resource, "accountId": question.account},
            "contextVariables": {"aws:SecureTransport": "true", **question.context},
        },
        "identityPolicies": own,
        # An organization that forbids nothing.
        "serviceControlPolicies": []
        if anonymous
        else [{"orgIdentifier": "o-1", "policies": [{"name": "FullAWSAccess", "policy": everything}]}],
        "resourceControlPolicies": [],
    }
    if question.resource_policy:
        simulation["resourcePolicy"] = question.resource_policy
    if question.boundary:
        simulation["permissionBoundaryPolicies"] = [{"name": "boundary", "policy": question.boundary}]
    return simulation
