"""`slurm.users` and `slurm.groups`: users and groups with an account on every node of the Slurm cluster."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated

from pydantic import AfterValidator, Field

from trainway.spec.sections.fields import Login
from trainway.spec.values import Section, wrong

# Regular users, to Debian, Ubuntu and systemd, without the first thousand of them, which useradd gives out by itself:
# the image has `ubuntu` there. https://systemd.io/UIDS-GIDS/ (read 2026-11-22), and FIRST_UID and LAST_UID in Debian's
# adduser.conf.
FIRST_ID, LAST_ID = 2000, 59999

# What OpenSSH 9.2 takes in authorized_keys (`ssh -Q key-plain`), but for DSA, which later ones refuse; each as it is
# named in the key itself.
KEY_TYPES = (
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-rsa",
)


def _public_key(value: str) -> str:
    if "PRIVATE KEY" in value:
        raise wrong(
            "it is a private key, which must not leave its owner's machine",
            "make a new one, and write its .pub file's line here",
        )
    kind, _, rest = value.partition(" ")
    encoded = rest.partition(" ")[0]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        blob = b""
    # Its first field is its type again, after the four bytes of that field's length: RFC 4253, section 6.6.
    named = blob[4 : 4 + int.from_bytes(blob[:4])].decode("ascii", "replace")
    one_line = re.fullmatch(r"[ -~]+", value) is not None
    if kind not in KEY_TYPES or named != kind or not one_line:
        raise wrong(
            "it is not the public key of an SSH key pair",
            f"write the one line of the .pub file: {', '.join(KEY_TYPES[:1])} AAAA… and a comment, without options",
        )
    return value


PublicKey = Annotated[str, AfterValidator(_public_key)]
NumericId = Annotated[int, Field(ge=FIRST_ID, le=LAST_ID)]


class SlurmGroup(Section):
    """A group of users that share files."""

    name: Login
    gid: NumericId = Field(description="Group ID on every node. It cannot change, because files are stored with it.")


class SlurmUser(Section):
    """A user with an account on every node, and a home directory that all nodes share."""

    name: Login
    uid: NumericId = Field(
        description="User ID on every node, also of the user's own group. It cannot change, because files are stored "
        "with it."
    )
    groups: tuple[Login, ...] = Field((), description="Names of further groups of the user, from slurm.groups.")
    keys: tuple[PublicKey, ...] = Field(
        (), description="Public SSH keys of the user. Without keys, the user logs in by Session Manager only."
    )
    sudo: bool = Field(False, description="Give the user passwordless sudo on every node.")
