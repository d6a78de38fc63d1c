"""Questions to an AWS account. They change nothing, and each ends within a few seconds."""

from __future__ import annotations

import functools
import threading
from collections.abc import Collection, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from trainway.spec.partition import always_enabled

CONNECT_SECONDS: Final = 3
READ_SECONDS: Final = 8
# One repetition: SageMaker and Service Quotas refuse several questions at once.
ATTEMPTS: Final = 2
# As many pages of an answer as are read. Service Quotas lists some two thousand quotas of SageMaker, 100 on a page.
MOST_PAGES: Final = 60
SIGN_IN: Final = (
    "sign in, for example with `aws sso login`, or set AWS_PROFILE; `aws sts get-caller-identity` shows the account"
)
_REFUSED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "UnauthorizedOperation",
        "UnauthorizedAccess",
        "403",
    }
)
# A Region that the account has not enabled gives the same answer as to an unknown key.
_UNKNOWN: Final = frozenset({"InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure"})
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
# Where the name of an IAM action is not that of the service and the operation:
# https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
# (read 2026-11-25)
_PREFIXES: Final = {"service-quotas": "servicequotas"}
_ACTIONS: Final = {
    "budgets:DescribeBudgets": "budgets:ViewBudget",
    "budgets:DescribeNotificationsForBudget": "budgets:ViewBudget",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListBuckets": "s3:ListAllMyBuckets",
}


class NotAnswered(Exception):
    """AWS did not answer a question. `why` and `fix` are for people."""

    def __init__(self, action: str, why: str, fix: str, *, is_refusal: bool = False) -> None:
        """Keep the reason and the remedy. A refusal is an answer: the caller lacks the permission."""
        super().__init__(f"{action}: {why}")
        self.action, self.why, self.fix, self.is_refusal = action, why, fix, is_refusal


class AwsQuestions:
    """An AWS account in a Region, which several threads ask.

    `number` and `partition` are those of the caller, whose ARN is `caller`. `is_emulated` is whether this machine
    itself answers.
    """

    def __init__(self, region: str) -> None:
        """Ask AWS who calls, with the credentials of this shell.

        Raises NotAnswered if there are none, they have expired, AWS refuses them, or the Region is not enabled.
        """
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        self.region, self._lock = region, threading.Lock()
        action = "sts:GetCallerIdentity"
        try:
            self._session = boto3.Session(region_name=region)
            if self._session.get_credentials() is None:
                raise NotAnswered(action, "this shell has no AWS credentials", SIGN_IN)
            sts = self._client("sts", region)
            answer = sts.get_caller_identity()
        except ClientError as failure:
            code, said = failure.response["Error"]["Code"], failure.response["Error"]["Message"]
            if code in _UNKNOWN and self._is_not_enabled():
                why = f"the account has not enabled the Region {region}, which refuses all credentials until then"
                fix = f"aws account enable-region --region-name {region}; it takes some minutes"
                raise NotAnswered(action, why, fix) from None
            why = f"the credentials of this shell have expired: {said}" if code in _EXPIRED else said
            raise NotAnswered(action, why, SIGN_IN) from None
        except BotoCoreError as failure:
            raise NotAnswered(action, str(failure), SIGN_IN) from None
        self.number, self.caller = str(answer["Account"]), str(answer["Arn"])
        self.partition = self.caller.split(":")[1]
        self.is_emulated = urlsplit(sts.meta.endpoint_url).hostname in ("localhost", "127.0.0.1")

    def _is_not_enabled(self) -> bool:
        """Return True if EC2 in a Region without opt-in reports that the account has not enabled this Region."""
        other = always_enabled(self.region)
        if other == self.region:
            return False
        try:
            answer = self.ask("ec2", "describe_regions", region=other, AllRegions=True, RegionNames=[self.region]) or {}
        except NotAnswered:
            return False
        return any(each.get("OptInStatus") == "not-opted-in" for each in answer.get("Regions", ()))

    def ask(
        self, service: str, operation: str, *, absent: Collection[str] = (), region: str | None = None, **asked: Any
    ) -> dict[str, Any] | None:
        """Return the answer to one call, or None if AWS answers with one of the codes `absent`. Raises NotAnswered."""
        client = self._client(service, region or self.region)
        answer: dict[str, Any] | None
        answer = self._answer(client, operation, absent, lambda: getattr(client, operation)(**asked))
        return answer

    def pages(
        self, service: str, operation: str, *, absent: Collection[str] = (), region: str | None = None, **asked: Any
    ) -> list[dict[str, Any]]:
        """Return all pages of an answer, and none if AWS answers with one of the codes `absent`. Raises NotAnswered."""
        client = self._client(service, region or self.region)
        paginator = client.get_paginator(operation)
        found = self._answer(client, operation, absent, lambda: list(_first(iter(paginator.paginate(**asked)))))
        return found or []

    def _answer(self, client: Any, operation: str, absent: Collection[str], call: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        action = _action(client, operation)
        try:
            return call()
        except ClientError as failure:
            code, said = failure.response["Error"]["Code"], failure.response["Error"]["Message"]
            if code in absent:
                return None
            if code in _REFUSED:
                why = f"the caller may not {action}"
                raise NotAnswered(action, why, f"ask for the permission {action}", is_refusal=True) from None
            raise NotAnswered(action, f"{code}: {said}", "run the command again") from None
        except BotoCoreError as failure:
            fix = "check the network of this machine, and run the command again"
            raise NotAnswered(action, str(failure), fix) from None

    def _client(self, service: str, region: str) -> Any:
        with self._lock:  # a session of boto3 is not to be shared by threads, and its clients are
            return self._made(service, region)

    @functools.cache  # noqa: B019 - the account lives as long as its command
    def _made(self, service: str, region: str) -> Any:
        from botocore.config import Config

        retries: Any = {"total_max_attempts": ATTEMPTS}
        bounded = Config(connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries=retries)
        return self._session.client(service, region_name=region, config=bounded)  # type: ignore[call-overload]


def _action(client: Any, operation: str) -> str:
    """Return the IAM action of a call, for example `ec2:DescribeSubnets`."""
    service = client.meta.service_model.service_name
    named = f"{service}:{client.meta.method_to_api_mapping[operation]}"
    prefix, _, name = _ACTIONS.get(named, named).partition(":")
    return f"{_PREFIXES.get(prefix, prefix)}:{name}"


def _first(pages: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for _ in range(MOST_PAGES):
        page = next(pages, None)
        if page is None:
            return
        yield page
