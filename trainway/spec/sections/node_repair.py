"""`kubernetes.node_repair`: how EKS repairs the nodes of node groups."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from trainway.spec.facts.node_repair import RepairAction
from trainway.spec.values import Section, wrong


def _amount(value: int | str) -> int | str:
    percent = re.fullmatch(r"(\d+)%", value) if isinstance(value, str) else None
    if isinstance(value, str) and (percent is None or not 1 <= int(percent[1]) <= 100):
        raise wrong("it is not a share of the nodes", "write 1% to 100%, or a number of nodes such as 2")
    if isinstance(value, int) and value < 1:
        raise wrong("it is less than one node", "write 1 or more, or a share such as 20%")
    return value


NodeAmount = Annotated[int | str, AfterValidator(_amount)]


class RepairOverride(Section):
    """Another repair for one reason that the node monitoring agent reports."""

    reason: str = Field(description="A reason that the node monitoring agent reports, for example NvidiaXID64Error.")
    wait_minutes: int = Field(ge=1, description="Minutes for which the condition must last before the repair.")
    action: RepairAction = Field(description="Replace, Reboot, or NoAction.")


class NodeRepair(Section):
    """How EKS repairs unhealthy nodes of managed node groups."""

    enabled: bool = Field(True, description="Whether EKS repairs unhealthy nodes of the node groups.")
    stop_above: NodeAmount | None = Field(
        None,
        description="Unhealthy nodes of a group, as a number or a share such as 20%, above which repairs stop. "
        "Default: 20% in groups of more than five nodes.",
    )
    at_once: NodeAmount | None = Field(
        None,
        description="Nodes of a group repaired at the same time, as a number or a share of the unhealthy ones. "
        "Default: EKS decides.",
    )
    overrides: tuple[RepairOverride, ...] = Field(
        (), description="Reasons that are repaired in another way than EKS's default."
    )
