"""Ask AWS for prices, and say why if it does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trainway.spec.errors import usage_error

ClientOf = Callable[[str, str], Any]
"""A function from a service and a Region to a client."""


@contextmanager
def asking(what: str, *, permissions: str, whole: bool = False) -> Iterator[ClientOf]:
    """Yield a function that returns clients of AWS's services, for reading `what`.

    Errors of AWS become UsageErrors, which name the permissions that the caller needs. If `whole`, the text `what` is
    already the sentence of the error.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    session: Any = boto3.Session()
    said = what if whole else f"{what} cannot be read"
    try:
        yield lambda service, region: session.client(service, region_name=region)
    except ClientError as error:
        fix = f"the caller needs {permissions}"
        raise usage_error(said, why=error.response["Error"]["Message"], fix=fix) from None
    except BotoCoreError as error:
        fix = "`aws sts get-caller-identity` shows whether this shell has credentials"
        raise usage_error(said, why=str(error), fix=fix) from None
