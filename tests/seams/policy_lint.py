"""Policy documents as iam-policy-validator reads them, a linter of IAM policies, without a network."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.seams.policies import Policy
from tests.seams.service_reference import write_service_reference

KINDS = {"identity": "IDENTITY_POLICY", "trust": "TRUST_POLICY", "resource": "RESOURCE_POLICY"}


@cache
def _services() -> tempfile.TemporaryDirectory[str]:
    directory = tempfile.TemporaryDirectory(prefix="services-")
    write_service_reference(Path(directory.name))
    return directory


def findings(policies: Sequence[Policy]) -> list[tuple[Policy, str, str]]:
    """Return what the linter says about policies: the policy, the kind of issue, and the message."""
    from iam_validator.core.config.config_loader import ValidatorConfig
    from iam_validator.core.models import IAMPolicy
    from iam_validator.core.policy_checks import validate_policies

    found = []
    for kind, name in KINDS.items():
        of_kind = [policy for policy in policies if policy.kind == kind]
        read = [
            (str(number), IAMPolicy.model_validate(policy.document), policy.document)
            for number, policy in enumerate(of_kind)
        ]
        results = asyncio.run(
            validate_policies(read, policy_type=name, aws_services_dir=_services().name, config=ValidatorConfig())
        )
        assert len(results) == len(of_kind)
        for result in results:
            policy = of_kind[int(result.policy_file)]
            found += [(policy, issue.issue_type, f"{issue.severity}: {issue.message}") for issue in result.issues]
    return found
