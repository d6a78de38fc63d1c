"""What HyperPod can be asked for."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, instance_types
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.services import service_facts


def a_volume_key_can_be_used(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A customer's key encrypts volumes of its own Region, of nodes that are provisioned continuously.

    https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-cmk.html (read 2026-11-21)
    """
    arn = platform.hyperpod_or_default.volume_key
    if arn is None:
        return
    key: KeyPath = ("hyperpod", "volume_key")
    if platform.orchestrator is Orchestrator.HYPERPOD_SLURM:
        reason = "HyperPod uses a key of yours with continuous provisioning only, which it has on EKS only"
        yield key, reason, "remove the key, or use the orchestrator hyperpod-eks"
    region = arn.split(":")[3]
    if region != platform.region:
        reason = f"the key is in {region}, and the volumes are in {platform.region}"
        yield key, reason, f"name a key of {platform.region}; of a multi-Region key, its replica there"


# Of Amazon Managed Service for Prometheus, where metrics are written (read 2026-11-21):
# https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-and-interface-VPC.html
METRICS_ENDPOINT = "aps-workspaces"


def hyperpods_metrics_can_be_made_and_sent(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod's observability is installed on a node that is large enough for it, and reaches Prometheus."""
    if platform.orchestrator is not Orchestrator.HYPERPOD_EKS or not platform.hyperpod_or_default.observability:
        return
    key: KeyPath = ("hyperpod", "observability")
    if any(name not in catalogue for _, name in instance_types(platform)):
        return  # reported by its own rule; there is nothing to compare
    needed = service_facts().hyperpod.observability_vcpus
    if not any(group.count and catalogue[group.instance_type].vcpus >= needed for group in platform.node_groups):
        reason = f"HyperPod installs it on a node with {needed} vCPUs or more, and the deploy makes none"
        yield key, reason, "remove the key, or give a group of 4xlarge or larger a count of 1 or more"
    existing = platform.network.existing
    if platform.network.is_closed and (existing is None or METRICS_ENDPOINT not in existing.endpoints):
        reason = "its metrics go to Amazon Managed Service for Prometheus, which a closed network does not reach"
        remedy = f"remove the key, or adopt a VPC that has an endpoint of {METRICS_ENDPOINT}"
        yield key, reason, remedy


def hyperpod_offers_the_types(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod has every instance type that one of its groups asks for."""
    if not platform.orchestrator.is_hyperpod:
        return
    for key, name in instance_types(platform):
        managed_by_eks = key[0] == "kubernetes"
        if name in catalogue and catalogue[name].hyperpod_name is None and not managed_by_eks:
            yield key, "SageMaker HyperPod does not offer this type", "choose another type, or the orchestrator eks"
