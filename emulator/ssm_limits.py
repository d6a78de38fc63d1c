"""Refuse what Parameter Store refuses and moto 5.2.5 accepts: long values, and invalid names."""

from __future__ import annotations

import functools
import re
from typing import Any, Final

# https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html
# https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html (both read 2026-11-22)
STANDARD_BYTES: Final = 4 * 1024
ADVANCED_BYTES: Final = 8 * 1024
NAME_CHARACTERS: Final = 1011  # including the ARN before the name
LEVELS: Final = 15
NAME: Final = re.compile(r"[a-zA-Z0-9_.-]+|(/[a-zA-Z0-9_.-]+)+")


def refused(name: str, value: str, tier: str | None, arn: str) -> str | None:
    """Return why Parameter Store refuses a parameter with this ARN, or None. Without a `tier`, it is a standard one."""
    if not NAME.fullmatch(name):
        return "Parameter name: can consist of letters, numbers and the symbols .-_ between slashes."
    if name.count("/") > LEVELS:
        return f"Parameter name: a hierarchy can have a maximum of {LEVELS} levels."
    if len(arn) > NAME_CHARACTERS:
        return f"Parameter name: with its ARN it can have a maximum of {NAME_CHARACTERS} characters."
    size, standard = len(value.encode()), tier in (None, "", "Standard")
    if size > (STANDARD_BYTES if standard else ADVANCED_BYTES):
        kind, limit = ("Standard", STANDARD_BYTES) if standard else ("Advanced", ADVANCED_BYTES)
        return f"{kind} tier parameters support a maximum parameter value of {limit} characters."
    return None


def refuse_what_parameter_store_refuses() -> None:
    """Make moto refuse such parameters, from CloudFormation and from any client."""
    from moto.ssm.exceptions import ValidationException
    from moto.ssm.models import SimpleSystemManagerBackend

    accept = SimpleSystemManagerBackend.put_parameter

    @functools.wraps(accept)
    def put_parameter(self: Any, name: str, description: str, value: str, *rest: Any, **more: Any) -> Any:
        arn = f"arn:{self.partition}:ssm:{self.region_name}:{self.account_id}:parameter/{name.lstrip('/')}"
        if why := refused(name, value or "", more.get("tier"), arn):
            raise ValidationException(why)
        return accept(self, name, description, value, *rest, **more)

    SimpleSystemManagerBackend.put_parameter = put_parameter  # type: ignore[method-assign]
