"""Edits of the network of a deployed platform."""

from __future__ import annotations

from tests.changes.edit import KUBERNETES, Edit, with_keys

NO_WAY_OUT = (
    "note: nodes that run lose their way to the internet with the NAT gateway: in running jobs, pip, Hugging Face, "
    "trackers, and Git fail from then on. Let these jobs end first (docs/closed-network.md)."
)

OF_NETWORK: dict[str, Edit] = {
    "a closed network": Edit(
        (with_keys(network="closed"),),
        "(network|registry|cluster|image|mirror|file-system|control-plane)/.*|observability/(Dashboard|NatPorts).*",
        says=(NO_WAY_OUT,),
        gone=("public-0", "public-1"),
    ),
    "another range": Edit((with_keys("network", cidr="10.1.0.0/16"),), refused="the range of a VPC cannot change"),
    "a third zone": Edit(
        (with_keys(zones=["usw2-az2", "usw2-az1", "usw2-az3"]),), refused="can have no other zones", on=KUBERNETES
    ),
    "one zone": Edit((with_keys(zones=["usw2-az2"]),), refused="keep usw2-az1 in the list"),
}
