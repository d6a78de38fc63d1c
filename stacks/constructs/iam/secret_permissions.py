"""Permissions of jobs to read the secrets of the platform file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk

from stacks.constructs.iam.permissions import Permission
from trainway.manifests.namespace import namespace_of
from trainway.spec.platform import Platform
from trainway.spec.sections.job_secret import JobSecret


def secret_permissions(platform: Platform, *, by_team: bool = False, of_team: str | None = None) -> list[Permission]:
    """Return the permissions to read the secrets that all jobs can read and, `by_team`, those of a team.

    With `of_team`, the permissions of a role that only this team has, with the secrets of the team.

    EKS Pod Identity gives a session of a role the namespace of its pod as a tag, so that one role has the secrets of
    several teams. https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html (read 2026-11-23)
    """
    found: list[Permission] = []
    for teams in dict.fromkeys(each.teams for each in platform.secrets):
        if not teams or by_team:
            secrets = [each for each in platform.secrets if each.teams == teams]
            found += _to_read(secrets, _in_namespaces(platform, teams) if teams else {})
        elif of_team in teams:
            found += _to_read([each for each in platform.secrets if each.teams == teams], {})
    return found


def _in_namespaces(platform: Platform, teams: Sequence[str]) -> dict[str, Any]:
    names = [namespace_of(platform, team) for team in platform.teams if team.name in teams]
    return {"aws:PrincipalTag/kubernetes-namespace": names}


def _to_read(secrets: Sequence[JobSecret], who: dict[str, Any]) -> list[Permission]:
    found = [
        Permission(
            ("secretsmanager:GetSecretValue",),
            tuple(dict.fromkeys(each.secret for each in secrets)),
            conditions={"StringEquals": who} if who else {},
        )
    ]
    if keys := tuple(dict.fromkeys(each.key for each in secrets if each.key)):
        # Only to decrypt secrets, and not what else the key has encrypted:
        # https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html (read 2026-11-23)
        service = f"secretsmanager.{cdk.Aws.REGION}.amazonaws.com"
        found.append(
            Permission(("kms:Decrypt",), keys, conditions={"StringEquals": {"kms:ViaService": service, **who}})
        )
    return found
