"""What a node takes of its subnet: the documented sums, and the ones that the VPC CNI's settings make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.kubernetes.pod_network import addresses_for_pods, cni_settings, pods_of_group
from trainway.spec.network.subnets import addresses_per_node
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.orchestrator import Orchestrator

CATALOGUE = load_catalogue()
KUBERNETES = [Orchestrator.EKS, Orchestrator.HYPERPOD_EKS]
P5 = CATALOGUE["p5.48xlarge"]


def pods(name: str, orchestrator: Orchestrator, max_pods: int | None = None) -> int:
    group = NodeGroup(name="train", instance_type=name, count=1, max_pods=max_pods)
    return pods_of_group(group, CATALOGUE[name], orchestrator)


@pytest.mark.parametrize(
    ("orchestrator", "documented"), [(Orchestrator.HYPERPOD_SLURM, 32), (Orchestrator.HYPERPOD_EKS, 81)]
)
def test_p5_node_takes_the_documented_addresses(orchestrator: Orchestrator, documented: int) -> None:
    """The only two figures that AWS documents, and the words of the second: 50 on the primary card, 1 on each other.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html (read 2026-11-21)
    """
    most = pods("p5.48xlarge", orchestrator)
    assert addresses_per_node(P5, orchestrator, pods=most, efa_only=False) == documented
    assert P5.network_cards == 32
    without = addresses_per_node(P5, orchestrator, pods=most, efa_only=True)
    assert without == documented - 31 == (50 if orchestrator.is_kubernetes else 1)


@pytest.mark.parametrize(
    ("running", "prefixes", "interfaces"), [(0, 1, 1), (5, 2, 1), (16, 2, 1), (17, 3, 1), (58, 5, 2)]
)
def test_prefixes_are_those_of_the_plug_ins_own_table(running: int, prefixes: int, interfaces: int) -> None:
    """t3.small, 3 interfaces of 4 addresses, WARM_PREFIX_TARGET=1.

    https://github.com/aws/amazon-vpc-cni-k8s/blob/master/docs/prefix-and-ip-target.md (read 2026-11-21)
    """
    small = CATALOGUE["m7i.xlarge"].model_copy(update={"primary_card_interfaces": 3, "ipv4_addresses_per_interface": 4})
    assert cni_settings(Orchestrator.EKS) == {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1"}
    assert addresses_for_pods(small, running, Orchestrator.EKS) == 16 * prefixes + interfaces


@pytest.mark.parametrize("orchestrator", KUBERNETES)
@given(name=st.sampled_from(sorted(CATALOGUE)), running=st.integers(0, 250))
def test_every_pod_has_an_address_and_the_node_has_its_own(orchestrator: Orchestrator, name: str, running: int) -> None:
    instance = CATALOGUE[name]
    host_network = 2
    running = min(running, instance.pod_capacity(prefix_delegation=not orchestrator.is_hyperpod) - host_network)
    taken = addresses_for_pods(instance, running, orchestrator)
    assert taken >= running + 1
    assert addresses_for_pods(instance, running + 1, orchestrator) >= taken
    places = instance.primary_card_interfaces * instance.ipv4_addresses_per_interface
    assert taken <= places * (1 if orchestrator.is_hyperpod else 16)


@pytest.mark.parametrize(
    ("name", "orchestrator", "max_pods", "expected"),
    [
        ("p5.48xlarge", Orchestrator.EKS, None, 32),
        ("p5.48xlarge", Orchestrator.EKS, 100, 100),
        ("m7i.8xlarge", Orchestrator.EKS, None, 110),
        ("p5.48xlarge", Orchestrator.HYPERPOD_EKS, None, 44),
        ("m7i.2xlarge", Orchestrator.HYPERPOD_EKS, None, 58),
        ("m7i.8xlarge", Orchestrator.HYPERPOD_EKS, None, 110),
    ],
)
def test_pods_of_a_node(name: str, orchestrator: Orchestrator, max_pods: int | None, expected: int) -> None:
    assert pods(name, orchestrator, max_pods) == expected


def test_more_pods_need_a_larger_subnet() -> None:
    few, many = (addresses_per_node(P5, Orchestrator.EKS, pods=n, efa_only=True) for n in (32, 100))
    assert (few, many) == (1 + 16 * 3, 1 + 16 * 8 + (8 > 49))
