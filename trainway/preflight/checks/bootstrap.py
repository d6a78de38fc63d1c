"""What `cdk bootstrap` has created in the account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.deployer import QUALIFIER
from trainway.preflight.finding import AccountFinding, error

# What the templates themselves ask for, in their rule CheckBootstrapVersion (aws-cdk-lib 2.275.0).
OLDEST_VERSION: Final = 6
PARAMETER: Final = f"/cdk-bootstrap/{QUALIFIER}/version"


@check("ssm:GetParameter", "s3:ListBucket")
def bootstrap(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The account's Region is bootstrapped for the CDK, in a version that the templates can be deployed with."""
    aws = inquiry.aws
    command = f"cdk bootstrap aws://{aws.number}/{aws.region}"
    found = aws.ask("ssm", "get_parameter", Name=PARAMETER, absent=["ParameterNotFound"])
    if found is None:
        yield error(
            f"{aws.region} is not bootstrapped in account {aws.number}",
            why=f"the parameter {PARAMETER} does not exist, and a deploy needs the roles and the bucket of the CDK",
            fix=command,
        )
        return
    version = int(found["Parameter"]["Value"])
    if version < OLDEST_VERSION:
        yield error(
            f"the CDK's bootstrap in {aws.region} has version {version}",
            why=f"the templates require version {OLDEST_VERSION}",
            fix=f"{command}, with a recent version of the CDK",
        )
    bucket = f"cdk-{QUALIFIER}-assets-{aws.number}-{aws.region}"
    if aws.ask("s3", "head_bucket", Bucket=bucket, absent=["404", "NoSuchBucket"]) is None:
        yield error(
            f"the bucket {bucket} of the CDK's bootstrap does not exist",
            why="a deploy uploads its templates and files to it, and somebody has deleted it",
            fix=f"delete the stack CDKToolkit, and run {command}. A stack that exists does not create its bucket again",
        )
