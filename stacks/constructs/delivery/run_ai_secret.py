"""Permissions of the stages that read the credentials of Run:ai."""

from __future__ import annotations

from stacks.constructs.iam.permissions import Permission, regional_arn
from trainway.spec.platform import Platform


def run_ai_permissions(platform: Platform) -> list[Permission]:
    """Return the permissions to read the secret of `kubernetes.run_ai`. Empty without that section.

    Secrets Manager adds a hyphen and six characters to a name. `?` stands for exactly one character.
    https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_iam-permissions.html (read 2026-11-27)
    """
    section = platform.installed_run_ai
    if section is None:
        return []
    named = section.secret if section.secret.startswith("arn:") else None
    arn = named or regional_arn("secretsmanager", f"secret:{section.secret}-??????")
    found = [Permission(("secretsmanager:GetSecretValue",), (arn,))]
    if section.key:
        found.append(Permission(("kms:Decrypt",), (section.key,)))
    return found
