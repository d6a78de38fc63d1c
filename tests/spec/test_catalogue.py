"""The catalogue says what AWS publishes: its layouts, its API's own answers, its SDK's lists of types."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from botocore.loaders import Loader

from tests.data_files import recorded_instance_types
from tests.fictitious import shipped
from trainway.spec.facts.catalogue import FACT_GROUPS, CapacityKind, Catalogue, Instance, load_catalogue

CATALOGUE = load_catalogue()
Data = dict[str, Any]


API = recorded_instance_types()
# Types without accelerators are compared as a whole, by test_refresh.py.
RECORDED = sorted(name for name in set(CATALOGUE) & set(API) if CATALOGUE[name].accelerator)


@pytest.fixture(scope="session")
def sagemaker_enum() -> Callable[[str], set[str]]:
    shapes = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    return lambda shape: set(shapes[shape]["enum"])


def layout(name: str) -> list[tuple[int, int, str]]:
    return [(i.network_card_index, i.device_index, i.kind.value) for i in CATALOGUE[name].interfaces]


def on_cards(*cards: int) -> list[tuple[int, int, str]]:
    return [(card, 0, "efa-only") for card in cards]


ENA = (0, 0, "interface")
EFA_BESIDE_ENA = (0, 1, "efa-only")


# --- published layouts: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html, read 2026-11-21


def test_p5_has_the_documented_layout_of_32_efa_devices_and_one_ena_device() -> None:
    assert layout("p5.48xlarge") == [ENA, EFA_BESIDE_ENA, *on_cards(*range(1, 32))]
    assert CATALOGUE["p5.48xlarge"].network_cards == CATALOGUE["p5.48xlarge"].efa_interfaces == 32


def test_p6_b200_has_an_efa_device_on_each_of_its_eight_cards() -> None:
    assert layout("p6-b200.48xlarge") == [ENA, EFA_BESIDE_ENA, *on_cards(*range(1, 8))]
    assert CATALOGUE["p6-b200.48xlarge"].efa_interfaces == 8


def test_p6_b300_has_no_efa_on_card_0() -> None:
    assert layout("p6-b300.48xlarge") == [ENA, *on_cards(*range(1, 17))]
    assert CATALOGUE["p6-b300.48xlarge"].network_cards == 17
    assert CATALOGUE["p6-b300.48xlarge"].efa_interfaces == 16


def test_p6e_gb200_has_one_efa_device_for_each_gpu() -> None:
    assert layout("p6e-gb200.36xlarge") == [ENA, *on_cards(1, 5, 9, 13)]


@pytest.mark.parametrize(
    ("name", "cards"),
    [
        ("p4d.24xlarge", 4),
        ("p4de.24xlarge", 4),
        ("p5e.48xlarge", 32),
        ("p5en.48xlarge", 16),
        ("trn1.32xlarge", 8),
        ("trn1n.32xlarge", 16),
        ("trn2.48xlarge", 16),
        ("trn2u.48xlarge", 16),
        ("g7e.48xlarge", 4),
    ],
)
def test_every_card_has_one_efa_device_and_only_the_primary_interface_has_an_address(name: str, cards: int) -> None:
    assert layout(name) == [ENA, EFA_BESIDE_ENA, *on_cards(*range(1, cards))]


@pytest.mark.parametrize("name", ["p5.4xlarge", "trn2.3xlarge", "g7.24xlarge"])
def test_a_type_with_one_card_has_a_single_efa_device_beside_ena(name: str) -> None:
    assert layout(name) == [ENA, EFA_BESIDE_ENA]


def test_every_layout_follows_the_general_rule() -> None:
    for name in CATALOGUE:
        primary, *others = layout(name)
        assert primary == ENA, f"{name}: an EFA-only interface cannot be the primary one"
        assert {kind for _, _, kind in others} <= {"efa-only"}, name
        assert all(device == (1 if card == 0 else 0) for card, device, _ in others), name


def test_nodes_without_accelerators_have_no_efa_even_if_ec2_has_it() -> None:
    assert API["m7i.48xlarge"]["NetworkInfo"]["EfaSupported"]
    assert all(layout(instance.name) == [ENA] for instance in CATALOGUE.values() if instance.accelerator is None)


def test_the_catalogue_has_every_size_of_the_families_that_teams_begin_with() -> None:
    families = re.compile(r"(g4dn|gr?6|g5|g6e|g7e?|[mcr][5-8][a-z0-9-]*)\.")
    assert {name for name in API if families.match(name)} - set(CATALOGUE) == set()
    assert len([name for name in CATALOGUE if CATALOGUE[name].accelerator is None]) > 900
    assert CATALOGUE["g5.xlarge"].devices == {"nvidia.com/gpu": 1}
    assert CATALOGUE["m8g.2xlarge"].architecture == "arm64"


def test_types_without_accelerators_are_made_when_they_are_asked_for() -> None:
    asked = list[str]()

    def make() -> Instance:
        asked.append("m7i.large")
        return CATALOGUE["m7i.large"]

    one = Catalogue({}, when_asked={"m7i.large": make})
    assert ("m7i.large" in one, list(one), asked) == (True, ["m7i.large"], [])
    assert one["m7i.large"] is one["m7i.large"] and asked == ["m7i.large"]


# --- EC2's own answers


def test_only_p6e_gb200_is_absent_from_the_recorded_api_answers() -> None:
    assert set(CATALOGUE) - set(API) == {"p6e-gb200.36xlarge"}


@pytest.mark.parametrize("name", RECORDED)
def test_compute_and_storage_are_what_the_api_answers(name: str) -> None:
    instance, answer = CATALOGUE[name], API[name]
    assert [instance.architecture] == answer["ProcessorInfo"]["SupportedArchitectures"]
    assert instance.vcpus == answer["VCpuInfo"]["DefaultVCpus"]
    assert instance.memory_gib * 1024 == answer["MemoryInfo"]["SizeInMiB"]
    store = instance.instance_store
    disks = [(disk["Count"], disk["SizeInGB"]) for disk in answer.get("InstanceStorageInfo", {}).get("Disks", [])]
    assert disks == ([(store.disks, store.gb_each)] if store else [])


@pytest.mark.parametrize("name", RECORDED)
def test_accelerators_are_what_the_api_answers(name: str) -> None:
    accelerator, answer = CATALOGUE[name].accelerator, API[name]
    chips = answer.get("GpuInfo", {}).get("Gpus", []) + answer.get("NeuronInfo", {}).get("NeuronDevices", [])
    if name == "trn2u.48xlarge":  # its answer leaves the accelerators out
        assert (accelerator, chips) == (CATALOGUE["trn2.48xlarge"].accelerator, [])
        return
    if accelerator is None:
        assert chips == []
        return
    (chip,) = chips
    assert (accelerator.name, accelerator.count) == (chip["Name"], chip["Count"])
    assert accelerator.vendor == ("nvidia" if "GpuInfo" in answer else "neuron")
    if chip["Name"] != "Trainium2":  # there the chip's own page says 96 GiB, and the API five times as much
        assert accelerator.memory_gib == chip["MemoryInfo"]["SizeInMiB"] // 1024


@pytest.mark.parametrize("name", RECORDED)
def test_network_limits_are_what_the_api_answers(name: str) -> None:
    instance, network = CATALOGUE[name], API[name]["NetworkInfo"]
    cards = network["NetworkCards"]
    assert instance.network_cards == network["MaximumNetworkCards"]
    assert instance.efa_interfaces == network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    assert instance.ipv4_addresses_per_interface == network["Ipv4AddressesPerInterface"]
    assert instance.primary_card_interfaces == cards[network["DefaultNetworkCardIndex"]]["MaximumNetworkInterfaces"]
    if "Up to" in network["NetworkPerformance"]:
        assert instance.network_gbps == cards[0]["BaselineBandwidthInGbps"]
    else:
        cards_of, _, each = network["NetworkPerformance"].removesuffix(" Gigabit").rpartition("x ")
        assert instance.network_gbps == float(cards_of or 1) * float(each)


@pytest.mark.parametrize("name", RECORDED)
def test_each_card_takes_the_interfaces_that_the_layout_puts_on_it(name: str) -> None:
    cards = {card["NetworkCardIndex"]: card for card in API[name]["NetworkInfo"]["NetworkCards"]}
    for card, device, kind in layout(name):
        assert kind in cards[card]["InterfaceTypes"]
        assert device < cards[card]["MaximumNetworkInterfaces"]


@pytest.mark.parametrize("name", RECORDED)
def test_markets_are_what_the_api_answers(name: str) -> None:
    markets = {CapacityKind.ON_DEMAND, CapacityKind.SPOT, CapacityKind.CAPACITY_BLOCK}
    assert markets & set(CATALOGUE[name].capacity_kinds) == set(API[name]["SupportedUsageClasses"])


def test_the_efa_devices_never_outnumber_the_cards() -> None:
    assert [i.name for i in CATALOGUE.values() if i.efa_interfaces > i.network_cards] == []


# --- SageMaker's own lists


def test_hyperpod_names_are_the_ones_that_hyperpod_accepts(sagemaker_enum: Callable[[str], set[str]]) -> None:
    accepted = sagemaker_enum("ClusterInstanceType")
    assert {i.name: i.hyperpod_name for i in CATALOGUE.values()} == {
        name: f"ml.{name}" if f"ml.{name}" in accepted else None for name in CATALOGUE
    }


def test_training_plans_are_sold_for_the_types_that_sagemaker_lists(sagemaker_enum: Callable[[str], set[str]]) -> None:
    listed = sagemaker_enum("ReservedCapacityInstanceType")
    offered = {f"ml.{i.name}" for i in CATALOGUE.values() if CapacityKind.TRAINING_PLAN in i.capacity_kinds}
    assert offered == listed


def test_the_hyperpod_quota_is_named_after_the_type() -> None:
    assert CATALOGUE["p5.48xlarge"].hyperpod_quota_name == "ml.p5.48xlarge for cluster usage"
    assert CATALOGUE["c7i.4xlarge"].hyperpod_quota_name is None


# https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html, read 2026-11-21
@pytest.mark.parametrize(
    ("names", "kind", "code"),
    [
        ("p", CapacityKind.ON_DEMAND, "L-417A185B"),
        ("g", CapacityKind.ON_DEMAND, "L-DB2E81BA"),
        ("trn", CapacityKind.ON_DEMAND, "L-2C3B7624"),
        ("m", CapacityKind.ON_DEMAND, "L-1216C47A"),
        ("c", CapacityKind.ON_DEMAND, "L-1216C47A"),
        ("r", CapacityKind.ON_DEMAND, "L-1216C47A"),
        ("p4", CapacityKind.SPOT, "L-7212CCBC"),
        ("p5", CapacityKind.SPOT, "L-C4BD4855"),
        ("g", CapacityKind.SPOT, "L-3819A6DF"),
        ("trn", CapacityKind.SPOT, "L-6B0D517C"),
        ("m", CapacityKind.SPOT, "L-34B43A08"),
        ("p4d", CapacityKind.CAPACITY_BLOCK, "L-2C8F52B3"),
        ("p5.", CapacityKind.CAPACITY_BLOCK, "L-DA6814F2"),
        ("p5e.", CapacityKind.CAPACITY_BLOCK, "L-C45F30BC"),
        ("p5en.", CapacityKind.CAPACITY_BLOCK, "L-4F9BB70B"),
        ("trn1.", CapacityKind.CAPACITY_BLOCK, "L-2E30FD7D"),
        ("trn2", CapacityKind.CAPACITY_BLOCK, "L-64569A79"),
    ],
)
def test_ec2_quotas_are_those_of_the_family(names: str, kind: CapacityKind, code: str) -> None:
    codes = {i.quota_codes[kind] for i in CATALOGUE.values() if i.name.startswith(names) and kind in i.quota_codes}
    assert codes == {code}


def test_a_type_has_an_on_demand_quota_if_it_is_sold_on_demand_and_none_of_what_it_is_not_sold_as() -> None:
    for instance in CATALOGUE.values():
        assert (CapacityKind.ON_DEMAND in instance.quota_codes) == (CapacityKind.ON_DEMAND in instance.capacity_kinds)
        assert set(instance.quota_codes) <= set(instance.capacity_kinds), instance.name


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("p4d.24xlarge", "L-47E0BC8F"),
        ("p4de.24xlarge", "L-BEF3120E"),
        ("p5.48xlarge", "L-8762A75F"),
        ("c7i.4xlarge", None),
    ],
)
def test_hyperpod_quotas_are_those_that_two_recorded_answers_agree_on(name: str, code: str | None) -> None:
    assert CATALOGUE[name].hyperpod_quota_code == code


def test_no_two_types_share_a_hyperpod_quota_and_none_is_of_a_type_that_is_not_here() -> None:
    listed = shipped()["hyperpod_quota_codes"]
    assert len(set(listed.values())) == len(listed) > 50
    assert set(listed) <= {instance.hyperpod_name for instance in CATALOGUE.values()}


# --- pods


# https://github.com/aws/amazon-vpc-cni-k8s/blob/master/misc/eni-max-pods.txt, read 2026-11-21
@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("p4d.24xlarge", 737),
        ("p5.4xlarge", 118),
        ("p5.48xlarge", 100),
        ("p5en.48xlarge", 198),
        ("p6-b200.48xlarge", 198),
        ("p6-b300.48xlarge", 198),
        ("trn1.32xlarge", 247),
        ("trn2.48xlarge", 100),
        ("g4dn.8xlarge", 58),
        ("g5.48xlarge", 345),
        ("g6e.12xlarge", 292),
        ("g6e.48xlarge", 492),
        ("m7i.large", 29),
        ("m7i.xlarge", 58),
        ("m7i.8xlarge", 234),
        ("m6i.16xlarge", 737),
    ],
)
def test_published_max_pods(name: str, pods: int) -> None:
    assert CATALOGUE[name].published_max_pods == pods


def test_an_efa_only_interface_on_the_primary_card_takes_the_place_of_pods() -> None:
    # Card 0 of a P5 holds two interfaces, of which one is EFA-only: 1 * 49 + 2.
    assert CATALOGUE["p5.48xlarge"].pod_capacity(prefix_delegation=False) == 51
    # Card 0 of a P6-B300 has no EFA: all four interfaces serve pods.
    assert CATALOGUE["p6-b300.48xlarge"].pod_capacity(prefix_delegation=False) == 198


def test_prefix_delegation_gives_more_pods_up_to_the_limits_of_eks() -> None:
    assert CATALOGUE["m7i.xlarge"].pod_capacity(prefix_delegation=False) == 58
    assert CATALOGUE["m7i.xlarge"].pod_capacity(prefix_delegation=True) == 110
    assert CATALOGUE["p5.48xlarge"].pod_capacity(prefix_delegation=True) == 250
    assert CATALOGUE["m7i.4xlarge"].pod_capacity(prefix_delegation=False) == 110


# --- sources


def test_every_fact_belongs_to_one_group_of_sources() -> None:
    grouped = [fact for facts in FACT_GROUPS.values() for fact in facts]
    assert sorted(grouped) == sorted(set(Instance.model_fields) - {"name", "sources"})


def test_every_fact_of_every_type_names_a_page_and_a_day() -> None:
    for instance in CATALOGUE.values():
        assert set(instance.sources) == set(FACT_GROUPS)
        for group, sources in instance.sources.items():
            assert sources, f"{instance.name}: {group}"
            assert all(source.url.startswith("https://") and source.title and source.read for source in sources)


# --- the catalogue as a mapping


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("p5.48xl", "p5.48xlarge"), ("ml.p5.48xlarge", "p5.48xlarge"), ("P5EN.48XLARGE", "p5en.48xlarge")],
)
def test_a_wrong_name_suggests_what_was_meant(wrong: str, meant: str) -> None:
    assert wrong not in CATALOGUE
    assert CATALOGUE.suggest(wrong)[0] == meant


def test_nonsense_suggests_nothing() -> None:
    assert CATALOGUE.suggest("quantum") == []


def test_the_catalogue_is_read_once() -> None:
    assert load_catalogue() is load_catalogue()
