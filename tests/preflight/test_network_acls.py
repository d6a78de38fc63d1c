"""A network ACL is read as EC2 reads it: the first rule that matches decides, and each direction for itself."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

import pytest

from trainway.preflight.checks.network_acls import Flow, flows, refused_by

VPC, ANYWHERE = IPv4Network("10.0.0.0/16"), IPv4Network("0.0.0.0/0")
ANSWERS = Flow(False, (1024, 65535), ANYWHERE, "answers")
INSIDE = Flow(True, (988, 1023), VPC, "Lustre")


def rule(
    number: int, action: str, peer: str = "0.0.0.0/0", ports: tuple[int, int] | None = None, **more: Any
) -> dict[str, Any]:
    entry = {"RuleNumber": number, "RuleAction": action, "CidrBlock": peer, "Egress": False, "Protocol": "6"}
    return entry | ({"PortRange": {"From": ports[0], "To": ports[1]}} if ports else {}) | more


ALL = rule(100, "allow", Protocol="-1")
OF_IPV6 = {"RuleNumber": 1, "RuleAction": "deny", "Ipv6CidrBlock": "::/0", "Egress": False, "Protocol": "-1"}
LAST = rule(32767, "deny", Protocol="-1")


@pytest.mark.parametrize(
    ("rules", "flow", "by"),
    [
        ([ALL, LAST], ANSWERS, ""),
        ([LAST], ANSWERS, "32767"),
        ([], ANSWERS, "*"),
        ([rule(90, "deny", ports=(40000, 50000)), ALL], ANSWERS, "90"),
        ([rule(110, "deny", ports=(40000, 50000)), ALL], ANSWERS, ""),
        ([rule(90, "deny", ports=(22, 22)), ALL], ANSWERS, ""),
        ([rule(90, "deny", ports=(40000, 50000), Protocol="17"), ALL], ANSWERS, ""),
        ([rule(90, "deny", ports=(40000, 50000), Egress=True), ALL], ANSWERS, ""),
        ([rule(100, "allow", ports=(1024, 65535)), LAST], ANSWERS, ""),
        ([rule(100, "allow", ports=(32768, 60999)), LAST], ANSWERS, "32767"),
        ([rule(100, "allow", ports=(1024, 30000)), rule(110, "allow", ports=(30001, 65535)), LAST], ANSWERS, ""),
        # A network that has a part of the others lets only that part in.
        ([rule(100, "allow", "10.0.0.0/16"), LAST], ANSWERS, "32767"),
        ([rule(100, "deny", "203.0.113.0/24"), rule(110, "allow"), LAST], ANSWERS, "100"),
        ([rule(90, "deny", "192.168.0.0/16", Egress=True), ALL | {"Egress": True}], INSIDE, ""),
        ([rule(90, "allow", "10.0.0.0/8", (443, 443), Egress=True), LAST | {"Egress": True}], INSIDE, "32767"),
        (
            [{"RuleNumber": 1, "RuleAction": "deny", "Ipv6CidrBlock": "::/0", "Egress": False, "Protocol": "-1"}, ALL],
            ANSWERS,
            "",
        ),
    ],
)
def test_the_rule_that_refuses_is_named(rules: list[dict[str, Any]], flow: Flow, by: str) -> None:
    assert refused_by(rules, flow) == by
    assert refused_by(list(reversed(rules)), flow) == by


def test_a_closed_network_needs_nothing_of_the_internet() -> None:
    assert {flow.peer for flow in flows(VPC, is_closed=True)} == {VPC}
    assert {flow.peer for flow in flows(VPC, is_closed=False)} == {VPC, ANYWHERE}
