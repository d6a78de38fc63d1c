"""`slurm.directory`: an LDAP directory whose users have accounts on every node of the Slurm cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainway.spec.sections.fields import PORT, Secret
from trainway.spec.values import Matches, Section

DistinguishedName = Annotated[
    str,
    Matches(
        r"[A-Za-z][A-Za-z0-9.-]*=[^\n]+",
        "it is not a distinguished name",
        "write it as in ou=people,dc=example,dc=com",
    ),
]


class DirectoryReader(Section):
    """Account with which the nodes read the directory."""

    name: DistinguishedName = Field(
        description="Distinguished name of a directory account that can only read users and groups."
    )
    secret: Secret = Field(
        description="ARN of the Secrets Manager secret whose whole text is the account's password. It must be "
        "encrypted by the AWS managed key."
    )


class Directory(Section):
    """An LDAP directory. Connections always use TLS; ldap:// starts with StartTLS."""

    uri: Annotated[
        str,
        Matches(
            rf"ldaps?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?({PORT})?",
            "it is not where a directory is",
            "write it as in ldaps://ldap.example.com, with a port if it is not the usual one",
        ),
    ] = Field(
        description="URI of the directory, for example ldaps://ldap.example.com. The certificate of its authority is "
        "in lifecycle_scripts/yours/certificates."
    )
    base: DistinguishedName = Field(description="Base DN of users and groups.")
    reader: DirectoryReader | None = Field(
        None, description="Account with which nodes read the directory. null: anonymous."
    )
    kind: Literal["rfc2307", "rfc2307bis", "active-directory"] = Field(
        "rfc2307bis",
        description="How groups name their members. rfc2307 by login name, rfc2307bis by distinguished name. "
        "active-directory as Active Directory does, with user and group numbers computed from its SIDs.",
    )
