"""Ask AWS, and say what is wrong if it cannot be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trainway.spec.errors import usage_error

ClientOf = Callable[[str, str], Any]
"""A function from a service and a Region to a client."""


@contextmanager
def asking(what: str, *, permissions: str) -> Iterator[ClientOf]:
    """Yield a function that returns clients of AWS's services, for reading `what`.

    Errors of AWS become UsageErrors, which name the permissions that the caller needs.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    session: Any = boto3.Session()
    try:
        yield lambda service, region: session.client(service, region_name=region)
    except ClientError as error:
        fix = f"the caller needs {permissions}"
        raise usage_error(f"{what} cannot be read", why=error.response["Error"]["Message"], fix=fix) from None
    except BotoCoreError as error:
        fix = "`aws sts get-caller-identity` shows whether this shell has credentials"
        raise usage_error(f"{what} cannot be read", why=str(error), fix=fix) from None
