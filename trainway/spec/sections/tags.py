"""`tags`: tags of all resources."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from trainway.spec.values import wrong

# Tag with the platform's name on file systems that the FSx driver creates, which alone it may change and delete, and on
# what a deploy adds to an existing cluster.
OWNER_TAG = "trainway"


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise wrong("the value of a tag is text", "write it in quotes")
    return value


TagValue = Annotated[str, BeforeValidator(_text)]
