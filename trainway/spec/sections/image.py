"""`image`: the training image."""

from __future__ import annotations

from pydantic import Field

from trainway.spec.fields import Section


class Image(Section):
    """The training image, built on deploy."""

    keep: int = Field(20, ge=1, le=1000, description="Images that the registry keeps; older ones expire.")
