"""`tags`: tags of all resources."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from trainway.spec.values import wrong


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise wrong("the value of a tag is text", "write it in quotes")
    return value


TagValue = Annotated[str, BeforeValidator(_text)]
