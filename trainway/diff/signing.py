"""Find the signing rule that stays in ECR's registry after the signing profile of an image is deleted.

The rule by which ECR signs is none of a stack's resources. delivery/organization/signing.sh writes it, and removes it
for `sign: false`. https://docs.aws.amazon.com/AmazonECR/latest/userguide/managed-signing.html (read 2026-11-23)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainway.diff.compare import Action, ResourceDiff

_PROFILE: Final = "AWS::Signer::SigningProfile"
_VARIABLE: Final = {"Name": "SIGNING_PROFILE", "Value": "none"}


def rule_that_stays(each: ResourceDiff, diffs: Sequence[ResourceDiff]) -> str:
    """Return that a signing rule stays in the registry, in words; empty if the deploy removes it, or there is none."""
    if each.kind != _PROFILE or each.action is not Action.DELETED:
        return ""
    for other in diffs:
        environment = other.after.get("Properties", {}).get("Environment", {})
        if other.id.stack == each.id.stack and isinstance(environment, dict):
            variables = environment.get("EnvironmentVariables", ())
            if any(_VARIABLE.items() <= variable.items() for variable in variables):
                return ""
    return "ECR's rule that signs with it stays in the registry; write `sign: false` and deploy first, which removes it"
