"""The network ACLs of subnets in an existing VPC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, Final

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.problems import KeyPath

_TCP, _ALL = "6", "-1"
_ANYWHERE: Final = IPv4Network("0.0.0.0/0")


@dataclass(frozen=True)
class Flow:
    """TCP that a network ACL must allow: where to, the first and last port of the receiver, and what it is for."""

    egress: bool
    ports: tuple[int, int]
    peer: IPv4Network
    what: str


def flows(vpc: IPv4Network, *, is_closed: bool) -> tuple[Flow, ...]:
    """Return the traffic of nodes and pods, with the answers to it.

    Answers go to ports from 1024 on: NAT gateways have all of these.
    https://docs.aws.amazon.com/vpc/latest/userguide/custom-network-acl.html#nacl-ephemeral-ports
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html (both read 2026-11-30)
    """
    lustre = (988, 1023)
    inside = [
        Flow(egress, ports, vpc, what)
        for egress in (True, False)
        for ports, what in (
            ((443, 443), "the Kubernetes API and endpoints"),
            (lustre, "Lustre"),
            ((1024, 65535), "nodes among each other"),
        )
    ]
    out = [
        Flow(True, (443, 443), _ANYWHERE, "AWS and the internet"),
        Flow(False, (1024, 65535), _ANYWHERE, "answers of AWS and the internet"),
    ]
    return (*inside, *([] if is_closed else out))


@check("ec2:DescribeNetworkAcls", "ec2:DescribeVpcs")
def network_acls(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The network ACLs of adopted subnets, and the one that new subnets get, let the traffic of nodes through."""
    existing = inquiry.platform.network.existing
    if existing is None:
        return
    here = [{"Name": "vpc-id", "Values": [existing.vpc_id]}]
    found = [
        acl for page in inquiry.aws.pages("ec2", "describe_network_acls", Filters=here) for acl in page["NetworkAcls"]
    ]
    described = inquiry.aws.ask("ec2", "describe_vpcs", VpcIds=[existing.vpc_id], absent=["InvalidVpcID.NotFound"])
    if described is None:
        return
    vpc = IPv4Network(described["Vpcs"][0]["CidrBlock"])
    of_subnet = {each["SubnetId"]: acl for acl in found for each in acl.get("Associations", [])}
    used = dict[str, tuple[Mapping[str, Any], str, KeyPath]]()
    for name, subnet in existing.subnets.items():
        if acl := of_subnet.get(subnet.id):
            used.setdefault(acl["NetworkAclId"], (acl, name, ("network", "existing", "subnets", name)))
    for acl in found:
        if acl.get("IsDefault"):
            used.setdefault(acl["NetworkAclId"], (acl, "new subnets", ("network", "existing", "vpc_id")))
    for identifier, (acl, who, key) in used.items():
        for flow in flows(vpc, is_closed=inquiry.platform.network.is_closed):
            if rule := refused_by(acl["Entries"], flow):
                yield _finding(identifier, flow, rule, who, key)
                break


def refused_by(entries: Sequence[Mapping[str, Any]], flow: Flow) -> str:
    """Return the rule of an ACL that refuses a part of a flow, or an empty text.

    Rules are read by their numbers, and the first that matches a packet decides. The last one, `*`, refuses.
    """
    own = [each for each in entries if each["Egress"] == flow.egress and "CidrBlock" in each]
    left = [flow.ports]
    for each in sorted(own, key=lambda each: each["RuleNumber"]):
        peer = IPv4Network(each["CidrBlock"])
        if each.get("Protocol") not in (_TCP, _ALL) or not peer.overlaps(flow.peer):
            continue
        first, last = _ports(each)
        if each["RuleAction"] == "deny" and any(first <= high and low <= last for low, high in left):
            return str(each["RuleNumber"])
        if each["RuleAction"] == "allow" and flow.peer.subnet_of(peer):
            left = [part for low, high in left for part in ((low, first - 1), (last + 1, high)) if part[0] <= part[1]]
            left = [(max(low, flow.ports[0]), min(high, flow.ports[1])) for low, high in left]
    return "*" if left else ""


def _ports(entry: Mapping[str, Any]) -> tuple[int, int]:
    ports = entry.get("PortRange") or {}
    return int(ports.get("From", 0)), int(ports.get("To", 65535))


def _finding(identifier: str, flow: Flow, rule: str, who: str, key: KeyPath) -> AccountFinding:
    way, preposition = ("outbound", "to") if flow.egress else ("inbound", "from")
    low, high = flow.ports
    ports = f"port {low}" if low == high else f"ports {low} to {high}"
    return error(
        f"{way} rule {rule} of {identifier} refuses TCP {preposition} {flow.peer} on {ports}",
        why=f"{who} need it for {flow.what}. A network ACL keeps no state: answers need rules of their own",
        fix=f"aws ec2 create-network-acl-entry --network-acl-id {identifier} "
        f"--{'egress' if flow.egress else 'ingress'} --protocol tcp --port-range From={low},To={high} "
        f"--cidr-block {flow.peer} --rule-action allow --rule-number N, with a number below the rule that refuses",
        key=key,
    )
