"""The rules of a security group that EFA requires, as EC2 describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

# How a deploy describes the rules that it adds.
OURS: Final = "EFA: everything "


def names_itself(rules: Iterable[Mapping[str, Any]], group_id: str) -> bool:
    """Return whether a rule of a security group that no deploy added allows everything from or to the group itself."""
    return any(
        rule["IpProtocol"] == "-1" and pair["GroupId"] == group_id and not pair.get("Description", "").startswith(OURS)
        for rule in rules
        for pair in rule["UserIdGroupPairs"]
    )
