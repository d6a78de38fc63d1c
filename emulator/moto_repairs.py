"""The few places where moto 5.2.5 says no to what AWS allows. Everything else of moto is used as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
_MISSING = re.compile(r"The (\w+) action has not been implemented")


def allow_what_aws_allows() -> None:
    """Take the wrong checks out of moto."""
    from moto.codebuild import responses as codebuild
    from moto.iam.access_control import PermissionResult
    from moto.s3.models import FakeBucket

    # A bucket policy's Deny is enforced but its Condition is not read, so "deny without TLS" would deny everything.
    FakeBucket.get_permission = lambda *_: PermissionResult.NEUTRAL  # type: ignore[method-assign]
    # CodeBuild's compute types are years old, and a CODEPIPELINE source or artifact has no location in AWS either. The
    # resource schema has checked all three already.
    for part in ("source", "artifacts", "environment"):
        setattr(codebuild, f"_validate_required_params_{part}", lambda _: None)


def refuse_missing_operations(services: Wsgi) -> Wsgi:
    """Answer 400 for an operation that moto lacks. moto's own 500 makes clients try again for half a minute."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            return services(environ, start_response)
        except NotImplementedError as error:
            found = _MISSING.search(str(error))
            message = f"The emulator does not have the operation {found[1] if found else error}"
        if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
            from emulator.protocol import render_error

            body, kind = render_error("NotEmulated", message), "text/xml"
        else:
            body, kind = json.dumps({"__type": "NotEmulated", "message": message}).encode(), "application/json"
        start_response("400 Bad Request", [("Content-Type", kind), ("x-amzn-ErrorType", "NotEmulated")])
        return [body]

    return application
