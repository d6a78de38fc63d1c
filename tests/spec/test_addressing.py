"""The address plan always fits, and says so when it cannot."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainway.spec.addressing import AddressesDoNotFit, addresses_per_node, plan_addresses
from trainway.spec.catalogue import load_catalogue
from trainway.spec.platform import NodeGroup, Orchestrator, Platform

CATALOGUE = load_catalogue()
TYPES = ("p5.48xlarge", "p4d.24xlarge", "m7i.8xlarge", "trn1.32xlarge")


def platform(cidr: str, orchestrator: Orchestrator, groups: list[tuple[str, int]]) -> Platform:
    nodes = tuple(
        NodeGroup(name=f"group-{index}", instance_type=instance_type, count=0, max_count=largest)
        for index, (instance_type, largest) in enumerate(groups)
    )
    return Platform.model_validate(
        {
            "region": "us-west-2",
            "zones": ("usw2-az1", "usw2-az2"),
            "orchestrator": orchestrator,
            "network": {"cidr": cidr},
            "node_groups": nodes,
        }
    )


@pytest.mark.parametrize(("kubernetes", "documented"), [(False, 32), (True, 81)])
def test_p5_node_takes_the_documented_addresses(kubernetes: bool, documented: int) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html (read 2026-11-21)"""
    p5 = CATALOGUE["p5.48xlarge"]
    assert addresses_per_node(p5, kubernetes=kubernetes, efa_only=False) == documented


def test_efa_only_interfaces_take_no_address() -> None:
    assert addresses_per_node(CATALOGUE["p5.48xlarge"], kubernetes=False, efa_only=True) == 1


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(list(Orchestrator)),
    st.lists(st.tuples(st.sampled_from(TYPES), st.integers(1, 400)), min_size=1, max_size=4),
    st.sampled_from(["10.0.0.0/16", "172.16.0.0/18", "192.168.128.0/17"]),
)
def test_a_plan_fits_or_is_refused_with_its_sum(
    orchestrator: Orchestrator, groups: list[tuple[str, int]], cidr: str
) -> None:
    try:
        plan = plan_addresses(platform(cidr, orchestrator, groups), CATALOGUE)
    except AddressesDoNotFit as error:
        assert cidr in str(error)
        assert all(f"group-{index}: " in str(error) for index in range(len(groups)))
        return
    vpc = IPv4Network(cidr)
    for subnet in plan.subnets:
        assert subnet.cidr.subnet_of(vpc)
        assert subnet.needed <= subnet.usable
        # Half the range would not do, unless the range is already the smallest that a VPC allows.
        assert subnet.cidr.prefixlen == 28 or subnet.needed > subnet.cidr.num_addresses // 2 - 5
    assert not any(one.cidr.overlaps(other.cidr) for one, other in combinations(plan.subnets, 2))
