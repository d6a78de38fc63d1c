"""What the EKS node monitoring agent reports, and how EKS repairs a node by default: node_repair.yaml."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict

from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.facts.instance import Source

RepairAction = Literal["Replace", "Reboot", "NoAction"]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Reason(_Facts):
    """A reason that the agent reports, in which `{code}` stands for a number, and EKS's default action."""

    reason: str
    action: RepairAction

    def is_of(self, reported: str) -> bool:
        """Return whether the agent reports this reason by that name."""
        return re.fullmatch(re.escape(self.reason).replace(r"\{code\}", r"\d+"), reported) is not None


class NodeRepairFacts(_Facts):
    """The reasons by node condition, from node_repair.yaml."""

    conditions: dict[str, tuple[Reason, ...]]
    sources: tuple[Source, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return all reasons, in the order of the file."""
        return tuple(each.reason for reasons in self.conditions.values() for each in reasons)

    def condition_of(self, reported: str) -> str | None:
        """Return the node condition that a reason is reported with, or None for a reason that is not known."""
        return next(
            (name for name, reasons in self.conditions.items() if any(each.is_of(reported) for each in reasons)), None
        )


@cache
def node_repair_facts() -> NodeRepairFacts:
    """Return the facts of node_repair.yaml, read once."""
    return NodeRepairFacts.model_validate(read_facts(FACTS / "node_repair.yaml"))
