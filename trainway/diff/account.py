"""The AWS account that a platform is deployed to, with the caller and the roles of the CDK's bootstrap."""

from __future__ import annotations

import functools
from typing import Any, Final

from trainway.spec.errors import usage_error

# Without credentials and without an answer, this call ends within a second, and no later one is made.
CONNECT_SECONDS: Final = 2
FIX: Final = (
    "sign in, for example with `aws sso login`, or set AWS_PROFILE; `aws sts get-caller-identity` shows the account"
)


class AwsAccount:
    """An AWS account and a Region, with clients of its services.

    `number` and `partition` are those of the caller, whose ARN is `caller`.
    """

    def __init__(self, region: str, profile: str | None = None) -> None:
        """Read the caller from AWS, with an AWS configuration profile or, by default, the shell's credentials.

        Raises UsageError if there are no such credentials or AWS refuses them.
        """
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        self.region = region
        once = Config(connect_timeout=CONNECT_SECONDS, read_timeout=10, retries={"total_max_attempts": 1})
        try:
            self._session = boto3.Session(region_name=region, profile_name=profile)
            if self._session.get_credentials() is None:
                raise usage_error("AWS cannot be asked", why="this shell has no AWS credentials", fix=FIX)
            answer = self._session.client("sts", config=once).get_caller_identity()
        except ClientError as error:
            raise usage_error("AWS cannot be asked", why=error.response["Error"]["Message"], fix=FIX) from None
        except BotoCoreError as error:
            raise usage_error("AWS cannot be asked", why=str(error), fix=FIX) from None
        self.number, self.caller = str(answer["Account"]), str(answer["Arn"])
        self.partition = self.caller.split(":")[1]

    def client(self, service: str, role: str = "") -> Any:
        """Return a client of a service in a role, or in the caller's own if the role is empty or cannot be assumed."""
        return self._session_in(self.filled(role)).client(service)

    def filled(self, text: str) -> str:
        """Return a text of a cloud assembly with this account and partition in place of the placeholders."""
        return text.replace("${AWS::AccountId}", self.number).replace("${AWS::Partition}", self.partition)

    @functools.cache  # noqa: B019 - an account lives as long as its command
    def _session_in(self, role: str) -> Any:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        if not role:
            return self._session
        try:
            found = self._session.client("sts").assume_role(RoleArn=role, RoleSessionName="trainway-diff")[
                "Credentials"
            ]
        except (BotoCoreError, ClientError):
            return self._session
        return boto3.Session(
            aws_access_key_id=found["AccessKeyId"],
            aws_secret_access_key=found["SecretAccessKey"],
            aws_session_token=found["SessionToken"],
            region_name=self.region,
        )
