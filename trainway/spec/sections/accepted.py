"""`accept`: rules about AWS that a platform does not have to satisfy."""

from __future__ import annotations

from pydantic import Field

from trainway.spec.values import Section


class Accepted(Section):
    """A rule that is known to be wrong for this platform, because AWS has changed what the rule rests on."""

    rule: str = Field(description="Name of a rule that `trainway rules` lists with `published`.")
    because: str = Field(min_length=1, description="How you know it, for whoever reads the file next.")
