"""The account that `trainway diff` asks, on an emulator."""

from __future__ import annotations

from typing import Any

import boto3

from emulator import Emulator
from trainway.diff.account import AwsAccount

ACCOUNT = "123456789012"


class EmulatedAccount(AwsAccount):
    """The account of an emulator, whatever the environment of this process says."""

    def __init__(self, emulator: Emulator) -> None:
        self.region, self.number, self.caller, self.partition = emulator.region, ACCOUNT, "", "aws"
        self._emulator, self._clients = emulator, dict[str, Any]()
        self._session = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=emulator.region)

    def client(self, service: str, role: str = "") -> Any:  # noqa: ARG002 - roles are not assumed
        """Return a client of a service."""
        if service not in self._clients:
            session: Any = self._session
            self._clients[service] = session.client(service, endpoint_url=self._emulator.endpoint)
        return self._clients[service]


def bootstrap(emulator: Emulator) -> None:
    """Create the CDK bootstrap's version parameter and its bucket for large templates, which the templates use."""
    account = EmulatedAccount(emulator)
    account.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String")
    account.client("s3").create_bucket(
        Bucket=f"cdk-hnb659fds-assets-{ACCOUNT}-{emulator.region}",
        CreateBucketConfiguration={"LocationConstraint": emulator.region},
    )
