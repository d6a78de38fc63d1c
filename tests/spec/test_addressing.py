"""The address plan always fits, and says so when it cannot."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hypothesis_profiles import examples
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.network.addressing import AddressesDoNotFit, AddressPlan, plan_addresses
from trainway.spec.network.subnets import Need, SubnetNeed, SubnetRole, node_subnets, shared_subnets
from trainway.spec.platform import MOST_NODE_GROUPS, Platform
from trainway.spec.sections.kubernetes import Kubernetes, SystemNodes
from trainway.spec.sections.network import Network
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.orchestrator import Orchestrator

CATALOGUE = load_catalogue()
TYPES = ("p5.48xlarge", "p4d.24xlarge", "m7i.8xlarge", "trn1.32xlarge")
RANGES = ("10.0.0.0/16", "172.16.0.0/18", "192.168.128.0/17", "10.1.0.0/20")


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


GROUPS = st.lists(st.tuples(st.sampled_from(TYPES), st.integers(1, 2000)), min_size=1, max_size=16)
MANY = st.lists(st.tuples(st.sampled_from(TYPES), st.integers(1, 40)), min_size=9, max_size=MOST_NODE_GROUPS)


def planned(cidr: str, orchestrator: Orchestrator, groups: list[tuple[str, int]]) -> AddressPlan | None:
    """The plan, or None where it is refused, for the reason that is written out."""
    try:
        return plan_addresses(platform(cidr, orchestrator, groups), CATALOGUE)
    except AddressesDoNotFit as error:
        assert error.remedy
        assert re.search(r"\d+ \(\d+ × \S+ at \d+( \(\d+ pods\))?\) \+ \d+ \(replacement of \d\) → /\d+", str(error)), (
            error
        )
        return None


@examples(2, at_night=20)
@given(st.sampled_from(list(Orchestrator)), GROUPS | MANY, st.sampled_from(RANGES))
def test_a_plan_fits_or_is_refused_with_its_sum(
    orchestrator: Orchestrator, groups: list[tuple[str, int]], cidr: str
) -> None:
    plan = planned(cidr, orchestrator, groups)
    if plan is None:
        return
    assert plan.vpc_cidrs[0] == IPv4Network(cidr)
    assert len(plan.vpc_cidrs) <= 5
    assert not any(one.overlaps(other) for one, other in combinations(plan.vpc_cidrs, 2))
    for subnet in plan.subnets:
        assert sum(subnet.cidr.subnet_of(vpc) for vpc in plan.vpc_cidrs) == 1
        assert 16 <= subnet.cidr.prefixlen <= 28
        assert subnet.needed <= subnet.usable
    assert not any(one.cidr.overlaps(other.cidr) for one, other in combinations(plan.subnets, 2))
    assert len({subnet.name for subnet in plan.subnets}) == len(plan.subnets)
    assert all(any(subnet.cidr.subnet_of(vpc) for subnet in plan.subnets) for vpc in plan.vpc_cidrs)


@examples(2, at_night=20)
@given(st.data(), st.sampled_from(list(Orchestrator)), GROUPS | MANY, st.sampled_from(RANGES))
def test_a_group_that_grows_or_is_added_moves_no_other(
    data: st.DataObject, orchestrator: Orchestrator, groups: list[tuple[str, int]], cidr: str
) -> None:
    grown = data.draw(st.integers(0, len(groups) - 1))
    instance_type, largest = groups[grown]
    more = data.draw(st.integers(largest, 4000))
    changed = [*groups[:grown], (instance_type, more), *groups[grown + 1 :], *data.draw(GROUPS | MANY)]
    before, after = (planned(cidr, orchestrator, each[:MOST_NODE_GROUPS]) for each in (groups, changed))
    if before is None or after is None:
        return
    places = {subnet.name: subnet.cidr for subnet in after.subnets}
    moved = {subnet.name for subnet in before.subnets if places[subnet.name] != subnet.cidr}
    assert moved <= {f"nodes-group-{grown}"}


@pytest.mark.parametrize(
    ("orchestrator", "capacity", "beside"),
    [
        (Orchestrator.EKS, "on-demand", 2),
        (Orchestrator.EKS, "spot", 2),
        (Orchestrator.EKS, {"reservation": "cr-0123456789abcdef0"}, 0),
        (Orchestrator.EKS, {"capacity_block": "cr-0123456789abcdef0"}, 0),
        (Orchestrator.HYPERPOD_EKS, "on-demand", 1),
    ],
)
def test_an_update_has_addresses_for_the_nodes_that_it_launches_first(
    orchestrator: Orchestrator, capacity: object, beside: int
) -> None:
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 4, "capacity": capacity}
    (subnet,) = node_subnets(
        platform("10.0.0.0/16", orchestrator, [("p5.48xlarge", 4)]).model_copy(
            update={"node_groups": (NodeGroup.model_validate(group),)}
        ),
        CATALOGUE,
    )
    nodes, *rest = subnet.needs
    each = nodes.addresses // 4
    assert [need.addresses for need in rest] == ([beside * each] if beside else [])


def test_groups_beyond_the_shares_have_a_range_together() -> None:
    plan = planned("10.0.0.0/16", Orchestrator.EKS, [("p5.48xlarge", 8)] * 25)
    assert plan is not None
    assert [str(cidr) for cidr in plan.vpc_cidrs] == ["10.0.0.0/16", "100.127.0.0/16", "100.126.0.0/16"]
    places = {subnet.name: str(subnet.cidr) for subnet in plan.subnets}
    assert places["nodes-group-7"] == "10.0.240.0/20"
    assert places["nodes-group-8"] == "100.127.0.0/20"
    assert places["nodes-group-23"] == "100.127.240.0/20"
    assert places["nodes-group-24"] == "100.126.0.0/20"


def test_a_group_too_large_for_its_share_gets_a_range_of_its_own() -> None:
    plan = planned("10.0.0.0/16", Orchestrator.EKS, [("m7i.8xlarge", 4), ("p5.48xlarge", 1000)])
    assert plan is not None
    assert [str(cidr) for cidr in plan.vpc_cidrs] == ["10.0.0.0/16", "100.65.0.0/16"]
    assert {s.name: str(s.cidr) for s in plan.subnets}["nodes-group-1"] == "100.65.0.0/16"


@pytest.mark.parametrize(
    ("cidr", "groups", "said"),
    [
        ("10.0.0.0/16", [("p5.48xlarge", 2000)], "a subnet is at most a /16: nodes-group-0: 98000"),
        ("10.0.0.0/22", [("m7i.8xlarge", 1)], "the smallest of 10.0.0.0/22 would be a /29"),
        ("10.0.0.0/21", [("m7i.8xlarge", 1)], "in 10.0.0.0/21 this subnet would be 10.0.0.0/28: public-0: 16"),
        (
            "10.0.0.0/20",
            [("p5.48xlarge", 100)] * 5,
            "a VPC has at most 5 ranges, and beside 10.0.0.0/20 each of these needs one",
        ),
    ],
)
def test_what_cannot_fit_is_refused_with_its_sum(cidr: str, groups: list[tuple[str, int]], said: str) -> None:
    with pytest.raises(AddressesDoNotFit, match=re.escape(said)):
        plan_addresses(platform(cidr, Orchestrator.EKS, groups), CATALOGUE)


def test_no_larger_range_is_asked_for_than_a_vpc_can_have() -> None:
    small = platform("10.0.0.0/16", Orchestrator.EKS, [("m7i.8xlarge", 1)])
    crowded = small.model_copy(update={"kubernetes": Kubernetes(system_nodes=SystemNodes(count=400))})
    with pytest.raises(AddressesDoNotFit, match=r"cluster-0: .* \(402 × m7i\.2xlarge at 49 \(32 pods\)\)") as caught:
        plan_addresses(crowded, CATALOGUE)
    assert caught.value.remedy == "use fewer system nodes"


# --- what AWS takes for itself


def needs(orchestrator: Orchestrator, role: SubnetRole) -> list[dict[str, int]]:
    """The needs of each subnet of a role, of a platform in two zones."""
    subnets = shared_subnets(platform("10.0.0.0/16", orchestrator, [("p5.48xlarge", 4)]), CATALOGUE)
    return [{need.what: need.addresses for need in subnet.needs} for subnet in subnets if subnet.role is role]


@pytest.mark.parametrize(("addresses", "prefix_length"), [(11, 28), (12, 27), (27, 27), (28, 26), (251, 24), (252, 23)])
def test_five_addresses_of_each_subnet_are_left_to_aws(addresses: int, prefix_length: int) -> None:
    need = SubnetNeed("nodes", SubnetRole.NODES, "usw2-az1", (Need("nodes", addresses),))
    assert need.prefix_length == prefix_length
    assert all(each.usable == each.cidr.num_addresses - 5 for each in small_plan().subnets)


def small_plan() -> AddressPlan:
    plan = planned("10.0.0.0/16", Orchestrator.EKS, [("m7i.8xlarge", 1)])
    assert plan
    return plan


@pytest.mark.parametrize("orchestrator", Orchestrator)
def test_each_public_subnet_has_room_for_a_nat_gateway(orchestrator: Orchestrator) -> None:
    assert needs(orchestrator, SubnetRole.PUBLIC) == [{"NAT gateway and load balancers": 16}] * 2


@pytest.mark.parametrize("orchestrator", Orchestrator)
def test_each_subnet_of_a_cluster_has_room_for_the_interfaces_of_eks(orchestrator: Orchestrator) -> None:
    found = [each.get("EKS control plane") for each in needs(orchestrator, SubnetRole.CLUSTER)]
    assert found == ([16, 16] if orchestrator.is_kubernetes else [None, None])


@pytest.mark.parametrize("orchestrator", Orchestrator)
def test_file_systems_have_a_subnet_of_their_own(orchestrator: Orchestrator) -> None:
    (storage,) = needs(orchestrator, SubnetRole.STORAGE)
    assert storage.keys() == {"FSx for Lustre file servers"}
    others = [needs(orchestrator, role) for role in (SubnetRole.PUBLIC, SubnetRole.CLUSTER)]
    assert "FSx" not in str(others)


@pytest.mark.parametrize(("orchestrator", "each"), [(Orchestrator.HYPERPOD_SLURM, 1), (Orchestrator.HYPERPOD_EKS, 50)])
def test_the_subnet_of_p5_nodes_has_the_addresses_that_they_take(orchestrator: Orchestrator, each: int) -> None:
    """The documented figure less 31: the EFA interfaces of the other cards have no address."""
    plan = planned("10.0.0.0/16", orchestrator, [("p5.48xlarge", 4)])
    assert plan
    (subnet,) = plan.of_role(SubnetRole.NODES)
    # One node more is there while HyperPod replaces one.
    assert subnet.needed == 5 * each <= subnet.usable


# --- closed networks, and networks that exist

EXISTING_RANGES = ("10.20.0.0/16", "10.21.0.0/16")
BLOCKS = st.sampled_from([str(cidr) for cidr in IPv4Network("10.20.0.0/15").subnets(new_prefix=20)])


@st.composite
def moves_in(draw: st.DrawFn) -> Platform:
    """A platform in a VPC that exists, some of whose subnets it adopts."""
    base = platform("10.0.0.0/16", draw(st.sampled_from(list(Orchestrator))), draw(GROUPS))
    needs = (*shared_subnets(base, CATALOGUE), *node_subnets(base, CATALOGUE))
    need = {n.name: n for n in needs if n.role is not SubnetRole.PUBLIC}
    chosen = draw(st.sets(st.sampled_from(sorted(need))))
    taken = draw(st.sets(BLOCKS, max_size=8))
    existing = {
        "vpc_id": "vpc-0123456789abcdef0",
        "cidrs": EXISTING_RANGES[: draw(st.integers(1, 2))],
        "taken": sorted(taken),
        "route_table_id": "rtb-0123456789abcdef0",
        "subnets": {
            name: {
                "id": f"subnet-{number:017x}",
                "zone": need[name].zone,
                "cidr": "10.20.0.0/20",
                "free": draw(st.integers(0, 70000)),
            }
            for number, name in enumerate(sorted(chosen))
        },
    }
    network = {
        "cidr": draw(
            st.sampled_from(["10.20.0.0/16", "10.20.128.0/17", "10.21.0.0/16", "10.30.0.0/16", "172.16.0.0/16"])
        ),
        "access": draw(st.sampled_from(["private", "closed"])),
        "existing": existing,
    }
    return base.model_copy(update={"network": Network.model_validate(network)})


@examples(2, at_night=20)
@given(moves_in())
def test_a_platform_that_moves_in_disturbs_nothing_or_is_refused(moved: Platform) -> None:
    existing = moved.network.existing
    assert existing is not None
    try:
        plan = plan_addresses(moved, CATALOGUE)
    except AddressesDoNotFit as error:
        assert error.remedy and re.search(r": .+ → /\d+", str(error)), error
        return
    assert plan.vpc_cidrs == (*existing.cidrs, *plan.added_cidrs)
    assert len(plan.vpc_cidrs) <= 5
    assert not any(one.overlaps(other) for one, other in combinations(plan.vpc_cidrs, 2))
    made = [subnet for subnet in plan.subnets if not subnet.adopted]
    assert not any(one.cidr.overlaps(other.cidr) for one, other in combinations(made, 2))
    there = (*existing.taken, *(subnet.cidr for subnet in existing.subnets.values()))
    assert not any(subnet.cidr.overlaps(other) for subnet in made for other in there)
    assert all(any(subnet.cidr.subnet_of(cidr) for cidr in plan.vpc_cidrs) for subnet in made)
    assert all(subnet.needed <= subnet.usable for subnet in plan.subnets)
    assert {s.name: s.adopted.id for s in plan.subnets if s.adopted} == {n: s.id for n, s in existing.subnets.items()}
    assert not plan.of_role(SubnetRole.PUBLIC)


@examples(3)
@given(st.sampled_from(list(Orchestrator)), GROUPS)
def test_closing_a_network_moves_no_subnet(orchestrator: Orchestrator, groups: list[tuple[str, int]]) -> None:
    private = platform("10.0.0.0/16", orchestrator, groups)
    closed = private.model_copy(update={"network": Network(access="closed")})
    try:
        before, after = plan_addresses(private, CATALOGUE), plan_addresses(closed, CATALOGUE)
    except AddressesDoNotFit:
        return
    kept = {subnet.name: subnet.cidr for subnet in before.subnets if subnet.role is not SubnetRole.PUBLIC}
    assert {subnet.name: subnet.cidr for subnet in after.subnets} == kept
