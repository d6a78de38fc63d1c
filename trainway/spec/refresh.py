"""Compare the catalogue and the Kubernetes versions with what AWS answers today: `python -m trainway.spec.refresh`.

Prints one line per difference. The exit status is 1 if there are differences, 0 if there are none, and 2 if EC2 did not
answer. If Service Quotas or EKS does not answer, the rest is compared.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import CapacityKind, Catalogue, Instance, load_catalogue
from trainway.spec.facts.kubernetes_versions import KubernetesVersions, kubernetes_versions, numbers
from trainway.spec.facts.offerings import sizes_of

Fact = str | int | float | None
Response = Mapping[str, Any]  # one member of DescribeInstanceTypes' InstanceTypes

# The capacity kinds that the answer's SupportedUsageClasses speaks of.
_MARKETS = (CapacityKind.CAPACITY_BLOCK, CapacityKind.ON_DEMAND, CapacityKind.SPOT)
_PERFORMANCE = re.compile(r"(?:(?P<cards>\d+)x )?(?P<each>[\d.]+) Gigabit")


@dataclass(frozen=True)
class Difference:
    """A fact of an instance type on which the catalogue and EC2 differ."""

    instance_type: str
    fact: str
    ours: Fact
    aws: Fact

    def __str__(self) -> str:
        return f"{self.instance_type}: {self.fact}: ours {_shown(self.ours)}, AWS's {_shown(self.aws)}"


def differences(catalogue: Catalogue, answers: Iterable[Response]) -> list[Difference]:
    """Return every difference between the catalogue and answers of DescribeInstanceTypes, by instance type.

    Types of the catalogue that no answer is about are not compared: a Region answers for what it offers. An accelerated
    type with EFA that the catalogue lacks is a difference, unless it is left out on purpose; so is each fact that
    disagrees, unless the catalogue knows that EC2 says so and why that is wrong.
    """
    known = {
        (name, fact, value)
        for disagreement in catalogue.disagreements
        for name in disagreement.types
        for fact, value in disagreement.facts.items()
    }
    found: list[Difference] = []
    for answer in sorted(answers, key=lambda answer: str(answer["InstanceType"])):
        name = answer["InstanceType"]
        if name in catalogue:
            found += [d for d in _of_type(catalogue[name], answer) if (name, d.fact, d.aws) not in known]
        elif not catalogue.why_left_out(name) and answer["NetworkInfo"].get("EfaSupported") and _chips(answer):
            found.append(Difference(name, "type", None, facts_of_answer(answer)["accelerator"]))
    return found


def quota_differences(catalogue: Catalogue, codes: Mapping[str, str]) -> list[Difference]:
    """Return every quota of HyperPod whose code differs from the catalogue's. `codes` has the codes by quota name.

    A quota that the answer does not name is not compared.
    """
    return [
        Difference(instance.name, "hyperpod_quota_code", instance.hyperpod_quota_code, code)
        for instance in catalogue.values()
        if (code := codes.get(instance.hyperpod_quota_name or "")) not in (None, instance.hyperpod_quota_code)
    ]


def facts_of_instance(instance: Instance) -> dict[str, Fact]:
    """Return those facts of a catalogue entry that EC2 can confirm, under the names that `facts_of_answer` uses."""
    accelerator, store = instance.accelerator, instance.instance_store
    return {
        "architecture": instance.architecture,
        "vcpus": instance.vcpus,
        "memory_gib": instance.memory_gib,
        "accelerator": f"{accelerator.count} × {accelerator.vendor} {accelerator.name}" if accelerator else None,
        "accelerator_memory_gib": accelerator.memory_gib if accelerator else None,
        "instance_store": f"{store.disks} × {store.gb_each} GB" if store else None,
        "network_gbps": instance.network_gbps,
        "network_cards": instance.network_cards,
        "primary_card_interfaces": instance.primary_card_interfaces,
        "ipv4_addresses_per_interface": instance.ipv4_addresses_per_interface,
        "efa_interfaces": instance.efa_interfaces,
        "markets": ", ".join(kind for kind in _MARKETS if kind in instance.capacity_kinds),
    }


def facts_of_answer(answer: Response) -> dict[str, Fact]:
    """Return the facts of an answer that the catalogue has, too. Memory is in GiB, rounded down."""
    network, chips = answer["NetworkInfo"], _chips(answer)
    vendor = "nvidia" if "GpuInfo" in answer else "neuron"
    primary_card = network["NetworkCards"][network["DefaultNetworkCardIndex"]]
    disks = answer.get("InstanceStorageInfo", {}).get("Disks", [])
    return {
        "architecture": ", ".join(answer["ProcessorInfo"]["SupportedArchitectures"]),
        "vcpus": answer["VCpuInfo"]["DefaultVCpus"],
        "memory_gib": answer["MemoryInfo"]["SizeInMiB"] // 1024,
        "accelerator": " + ".join(f"{chip['Count']} × {vendor} {chip['Name']}" for chip in chips) or None,
        "accelerator_memory_gib": chips[0]["MemoryInfo"]["SizeInMiB"] // 1024 if chips else None,
        "instance_store": " + ".join(f"{disk['Count']} × {disk['SizeInGB']} GB" for disk in disks) or None,
        "network_gbps": _network_gbps(network),
        "network_cards": network["MaximumNetworkCards"],
        "primary_card_interfaces": primary_card["MaximumNetworkInterfaces"],
        "ipv4_addresses_per_interface": network["Ipv4AddressesPerInterface"],
        "efa_interfaces": network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        "markets": ", ".join(sorted(answer["SupportedUsageClasses"])),
    }


def describe_instance_types(catalogue: Catalogue) -> tuple[str, list[Response]]:
    """Return the Region, and its answers for the catalogue's types and for all types with EFA.

    Raises UsageError without credentials, a Region or a network.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    answers: dict[str, Response] = {}
    # A filter, unlike a list of types, passes over types that the Region has never heard of.
    listed = ("instance-type", sizes_of(catalogue))
    with_efa = ("network-info.efa-supported", ["true"])
    try:
        client = boto3.client("ec2", config=Config(connect_timeout=10, retries={"total_max_attempts": 3}))
        pages = client.get_paginator("describe_instance_types")
        for name, values in (listed, with_efa):
            for page in pages.paginate(Filters=[{"Name": name, "Values": values}]):
                answers.update({answer["InstanceType"]: answer for answer in page["InstanceTypes"]})
    except (BotoCoreError, ClientError) as error:
        raise usage_error(
            "EC2 could not be asked for its instance types",
            why=str(error),
            fix="set AWS_DEFAULT_REGION, and credentials that may call ec2:DescribeInstanceTypes, or AWS_PROFILE",
        ) from None
    return client.meta.region_name, list(answers.values())


def list_hyperpod_quotas() -> dict[str, str]:
    """Return the codes of SageMaker's quotas on HyperPod instances in this account's Region, by name.

    Raises UsageError when Service Quotas does not answer.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client = boto3.client("service-quotas", config=Config(connect_timeout=10, retries={"total_max_attempts": 3}))
        pages = client.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
        quotas = [quota for page in pages for quota in page["Quotas"]]
    except (BotoCoreError, ClientError) as error:
        fix = "use credentials that may call servicequotas:ListServiceQuotas"
        raise usage_error("HyperPod's quotas were not compared", why=str(error), fix=fix) from None
    return {quota["QuotaName"]: quota["QuotaCode"] for quota in quotas}


def version_differences(versions: KubernetesVersions, answers: Iterable[Response]) -> list[Difference]:
    """Return every difference between the table of Kubernetes versions and members of DescribeClusterVersions' answer.

    A version of the table that EKS does not answer has reached the end of extended support.
    """
    ends = {
        answer["clusterVersion"]: (answer["endOfStandardSupportDate"], answer["endOfExtendedSupportDate"])
        for answer in answers
    }
    found = []
    for version in sorted({*versions.eks.versions, *ends}, key=numbers):
        ours, aws = versions.eks.versions.get(version), ends.get(version)
        for at, fact in enumerate(("standard_until", "extended_until")):
            here = getattr(ours, fact).isoformat() if ours else None
            there = aws[at].astimezone(UTC).date().isoformat() if aws else None
            if here != there:
                found.append(Difference(f"Kubernetes {version}", fact, here, there))
    return found


def describe_cluster_versions() -> list[Response]:
    """Return what EKS says of each Kubernetes version that a cluster can have.

    Raises UsageError when EKS does not answer.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client = boto3.client("eks", config=Config(connect_timeout=10, retries={"total_max_attempts": 3}))
        pages = client.get_paginator("describe_cluster_versions").paginate()
        return [version for page in pages for version in page["clusterVersions"]]
    except (BotoCoreError, ClientError) as error:
        fix = "use credentials that may call eks:DescribeClusterVersions"
        raise usage_error("Kubernetes versions were not compared", why=str(error), fix=fix) from None


def main() -> int:
    """Print the differences; the exit status says whether there are any."""
    catalogue = load_catalogue()
    try:
        region, answers = describe_instance_types(catalogue)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    found = differences(catalogue, answers)
    try:
        found += quota_differences(catalogue, list_hyperpod_quotas())
    except UsageError as error:
        print(error, file=sys.stderr)
    try:
        found += version_differences(kubernetes_versions(), describe_cluster_versions())
    except UsageError as error:
        print(error, file=sys.stderr)
    for difference in found:
        print(difference)
    absent = sorted(set(catalogue) - {answer["InstanceType"] for answer in answers})
    compared = f"{len(catalogue) - len(absent)} types compared with EC2 in {region}, {len(found)} differences"
    print(f"{compared}; not offered there: {', '.join(absent) or 'none'}", file=sys.stderr)
    return 1 if found else 0


def _of_type(instance: Instance, answer: Response) -> Iterator[Difference]:
    ours, aws = facts_of_instance(instance), facts_of_answer(answer)
    for fact, value in ours.items():
        # Nodes without accelerators are launched without EFA, also where the type has it.
        if value != aws[fact] and (fact != "efa_interfaces" or instance.accelerator):
            yield Difference(instance.name, fact, value, aws[fact])
    cards = {card["NetworkCardIndex"]: card for card in answer["NetworkInfo"]["NetworkCards"]}
    for interface in instance.interfaces:
        card = cards.get(interface.network_card_index, {"InterfaceTypes": [], "MaximumNetworkInterfaces": 0})
        kinds, most = card.get("InterfaceTypes", []), card["MaximumNetworkInterfaces"]
        if interface.kind not in kinds or interface.device_index >= most:
            fact = f"card {interface.network_card_index}, device {interface.device_index}"
            yield Difference(instance.name, fact, interface.kind.value, f"{most} of {', '.join(kinds) or 'nothing'}")


def _chips(answer: Response) -> list[Mapping[str, Any]]:
    gpus: list[Mapping[str, Any]] = answer.get("GpuInfo", {}).get("Gpus", [])
    neuron_devices: list[Mapping[str, Any]] = answer.get("NeuronInfo", {}).get("NeuronDevices", [])
    return gpus + neuron_devices


def _network_gbps(network: Mapping[str, Any]) -> float | None:
    """Return what the type sustains over all cards, or None if EC2 describes it in an unknown form."""
    performance = network["NetworkPerformance"]
    if performance.startswith("Up to"):
        baseline: float | None = network["NetworkCards"][0].get("BaselineBandwidthInGbps")
        return baseline
    figures = _PERFORMANCE.fullmatch(performance)
    return float(figures["each"]) * int(figures["cards"] or 1) if figures else None


def _shown(value: Fact) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
