"""Who launches a run, by the credentials that launch it."""

from __future__ import annotations

import getpass
import re

# Session names that name no person: botocore's, with the time (botocore/credentials.py of 1.44); the one that
# `aws eks get-token --role-arn` uses for everybody; another SDK's, which is the time; and that of an EC2 instance's
# role, which is the instance's ID.
# https://github.com/aws/aws-cli/blob/develop/awscli/customizations/eks/get_token.py
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html (both read 2026-11-23)
NAMES_NOBODY = re.compile(r"botocore-session-\d+|EKSGetTokenAuth|\d{10,}|i-[0-9a-f]{8,17}")


def owner_of_run() -> str:
    """Return the name of the IAM user, or of the role session, whose credentials these are.

    Where they name nobody, as those of a login node do, it is the login name on this machine. It tells colleagues whom
    to ask, and permits nothing.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        arn = str(boto3.client("sts").get_caller_identity()["Arn"])
    except (BotoCoreError, ClientError):
        return _login_name()
    name = arn.rpartition("/")[2]
    return _login_name() if NAMES_NOBODY.fullmatch(name) or name == arn else name


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "nobody"
