"""`slurm.directory`: an LDAP directory whose users have accounts on every node of the Slurm cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainway.spec.values import Matches, Section

DistinguishedName = Annotated[
    str,
    Matches(
        r"[A-Za-z][A-Za-z0-9.-]*=[^\n]+",
        "it is not a distinguished name",
        "write it as in ou=people,dc=example,dc=com",
    ),
]
Secret = Annotated[
    str,
    Matches(
        r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:\S+-[A-Za-z0-9]{6}",
        "it is not the whole ARN of a secret, which ends in a hyphen and six characters",
        "write it as in arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf",
    ),
]


class DirectoryReader(Section):
    """Whom the nodes are to the directory."""

    name: DistinguishedName = Field(
        description="An account of the directory's that reads users and groups, and no more."
    )
    secret: Secret = Field(
        description="The Secrets Manager secret that is its password, nothing else, encrypted by a key of AWS's own."
    )


class Directory(Section):
    """A directory that answers with LDAP, over TLS always: ldap:// begins with StartTLS."""

    uri: Annotated[
        str,
        Matches(
            r"ldaps?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?",
            "it is not where a directory is",
            "write it as in ldaps://ldap.example.com, with a port if it is not the usual one",
        ),
    ] = Field(description="Where it is; the certificate of its authority is in lifecycle_scripts/yours/certificates.")
    base: DistinguishedName = Field(description="Base DN of users and groups.")
    reader: DirectoryReader | None = Field(
        None, description="Account with which nodes read the directory. null: anonymous."
    )
    kind: Literal["rfc2307", "rfc2307bis", "active-directory"] = Field(
        "rfc2307bis",
        description="How groups name members: by login name, by distinguished name, or as Active Directory does, where "
        "numbers are made of its own.",
    )
