"""Edits of the node groups of a deployed platform."""

from __future__ import annotations

import itertools
from typing import Any

from tests.changes.edit import Edit, belonging_to, group, with_groups, with_keys
from tests.changes.edits.shared import AA, BB, CC, DD, ONLY_THE_CLUSTER


def _removed(*lines: str, **costs: str) -> dict[str, Any]:
    """Return the expectations of an edit that removes node groups. Each group has the cost of its nodes.

    `lines` are further ones that the diff prints.
    """
    says = [
        (
            f"  deleted           subnet nodes-{name}",
            f"  deleted           node group {name}",
            f"                    cost: {cost}",
            f"refused: node group {name} would be deleted",
        )
        for name, cost in costs.items()
    ]
    return {
        "loses": dict.fromkeys(costs, "node_groups"),
        "gone": tuple(each for name in costs for each in (name, f"nodes-{name}", f"{name.title()}Template")),
        "says": (*lines, *itertools.chain(*says)),
    }


EE = group("ee")
LARGER = "g6e.12xlarge"
ONE_STOPS, TWO_STOP = "1 node stops, and the jobs on it", "2 nodes stop, and the jobs on them"
ADDED = (
    "  created           subnet nodes-ee",
    "  created           node group ee",
)
REMOVED_AND_ADDED = "remove one group and add another"

OF_GROUPS: dict[str, Edit] = {
    "remove the first group": Edit((with_groups(BB, CC, DD),), belonging_to("aa"), **_removed(aa=TWO_STOP)),
    "remove the middle group": Edit((with_groups(AA, CC, DD),), belonging_to("bb"), **_removed(bb=ONE_STOPS)),
    "remove the last group": Edit((with_groups(AA, BB, CC),), belonging_to("dd"), **_removed(dd=ONE_STOPS)),
    "remove two groups": Edit((with_groups(BB, CC),), belonging_to("aa", "dd"), **_removed(aa=TWO_STOP, dd=ONE_STOPS)),
    "remove an empty group": Edit(
        (with_groups(AA, BB, DD),),
        belonging_to("cc"),
        gone=("cc", "nodes-cc", "CcTemplate"),
        says=("  deleted           subnet nodes-cc", "  deleted           node group cc"),
    ),
    "add a first group": Edit((with_groups(EE, AA, BB, CC, DD),), belonging_to("ee"), back_loses=("ee",), says=ADDED),
    "add a middle group": Edit((with_groups(AA, EE, BB, CC, DD),), belonging_to("ee"), back_loses=("ee",), says=ADDED),
    "add a last group": Edit((with_groups(AA, BB, CC, DD, EE),), belonging_to("ee"), back_loses=("ee",), says=ADDED),
    "add a group in the other zone": Edit(
        (with_groups(AA, BB, CC, DD, group("ee", zone="usw2-az1")),), belonging_to("ee"), back_loses=("ee",), says=ADDED
    ),
    "add a group larger than a share": Edit(
        (with_groups(group("ee", max_count=90), AA, BB, CC, DD),),
        "cluster/NetworkCidr.*|" + belonging_to("ee"),
        back_loses=("ee",),
        says=ADDED,
    ),
    REMOVED_AND_ADDED: Edit(
        (with_groups(AA, EE, CC, DD),),
        belonging_to("bb", "ee"),
        **_removed(*ADDED, bb=ONE_STOPS),
        back_loses=("ee",),
    ),
    "rename the first group": Edit(
        (with_groups(AA | {"name": "zz"}, BB, CC, DD),),
        belonging_to("aa", "zz"),
        **_removed("  created           node group zz", aa=TWO_STOP),
        back_loses=("zz",),
    ),
    "rename the last group": Edit(
        (with_groups(AA, BB, CC, group("zz")),),
        belonging_to("dd", "zz"),
        **_removed("  created           node group zz", dd=ONE_STOPS),
        back_loses=("zz",),
    ),
    "swap two groups": Edit((with_groups(BB, AA, CC, DD),), says_on={"eks": (ONLY_THE_CLUSTER,)}),
    "reverse the groups": Edit((with_groups(DD, CC, BB, AA),), says_on={"eks": (ONLY_THE_CLUSTER,)}),
    "more nodes": Edit(
        (with_groups(AA | {"count": 3}, BB, CC, DD),),
        says=("                    cost: 1 node more",),
        says_on={
            "eks": ("  changed in place  node group aa", ONLY_THE_CLUSTER),
            "hyperpod-eks": ("                    InstanceCount: 2 → 3",),
        },
    ),
    "fewer nodes": Edit(
        (with_groups(AA | {"count": 1, "max_count": 2}, BB, CC, DD),),
        says=(
            "                    ScalingConfig.DesiredSize: 2 → 1",
            "                    cost: from 2 running nodes to 1: 1 node stops, and the jobs on it",
        ),
        on=("eks",),
    ),
    "a larger group": Edit((with_groups(AA, group("bb", max_count=16), CC, DD),)),
    "a smaller group": Edit((with_groups(AA, group("bb", max_count=2), CC, DD),)),
    "a group that outgrows its subnet": Edit(
        (with_groups(AA, group("bb", max_count=5000), CC, DD),), refused="a subnet cannot grow"
    ),
    "another type of a group": Edit(
        (with_groups(AA | {"instance_type": LARGER}, BB, CC, DD),),
        belonging_to("aa"),
        {"aa": "node_groups[0].instance_type"},
        ("aa",),
        gone=("aa",),
        says_on={
            "eks": (
                "  replaced          node group aa",
                '                    InstanceTypes: ["g6e.8xlarge"] → ["g6e.12xlarge"]',
                f"    why: InstanceTypes cannot change in a node group that exists; {TWO_STOP}",
                ONLY_THE_CLUSTER,
            ),
            "hyperpod-eks": (
                '                    InstanceType: "ml.g6e.8xlarge" → "ml.g6e.12xlarge", which may replace it',
            ),
        },
    ),
    "another type of an empty group": Edit(
        (with_groups(AA, BB, CC | {"instance_type": LARGER}, DD),),
        belonging_to("cc"),
        gone=("cc",),
        says=("  replaced          node group cc", ONLY_THE_CLUSTER),
        on=("eks",),
    ),
    "spot instead of on demand": Edit(
        (with_groups(AA, group("bb", capacity="spot"), CC, DD),),
        "observability/EventsSpotInterrupted.*|" + belonging_to("bb"),
        {"bb": "node_groups[1].capacity"},
        ("bb",),
        gone=("bb",),
        says=('                    CapacityType: "ON_DEMAND" → "SPOT"',),
        on=("eks",),
    ),
    "another zone of a group": Edit(
        (with_groups(AA, group("bb", zone="usw2-az1"), CC, DD),), refused="a subnet cannot change its zone"
    ),
    "another order of the zones": Edit((with_keys(zones=["usw2-az1", "usw2-az2"]),), refused="cannot change its zone"),
    "another zone and name of a group": Edit(
        (with_groups(AA, group("zz", zone="usw2-az1"), CC, DD),),
        belonging_to("bb", "zz"),
        **_removed(bb=ONE_STOPS),
        back_loses=("zz",),
    ),
}
