"""Rules about an adopted EKS cluster, which no deploy changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.kubernetes_versions import numbers
from trainway.spec.kubernetes.addons import FSX_DRIVER, VPC_CNI
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, rule
from trainway.spec.sections.existing import SELF_MANAGED, ExistingCluster
from trainway.spec.sections.orchestrator import Orchestrator

KEY: Final[KeyPath] = ("kubernetes", "existing")
AGAIN: Final = "and run `trainway adopt` again"
# Every cluster has these. By default, EKS creates a cluster with copies that are no add-ons.
# bootstrapSelfManagedAddons of https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html (read
# 2026-11-26)
EVERY_CLUSTER_HAS: Final = (VPC_CNI, "kube-proxy", "coredns")
# For network policies of both kinds.
# https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html (read 2026-11-26)
CNI_WITH_POLICIES: Final = "1.21"
# Keys of `kubernetes` that are settings of the cluster itself.
OF_THE_CLUSTER: Final = ("version", "control_plane", "endpoint")


@rule
def an_existing_cluster_is_in_the_adopted_vpc(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """An existing cluster is used with the orchestrator eks, in the adopted VPC, the account, and the Region."""
    adopted = platform.adopted_cluster
    if adopted is None:
        return
    if platform.orchestrator is not Orchestrator.EKS and platform.orchestrator.is_kubernetes:
        reason = f"the orchestrator is {platform.orchestrator.value}, which works in a cluster of its own"
        yield KEY, reason, "remove the section, or write `orchestrator: eks`"
    network = platform.network.existing
    if network is None:
        reason = f"the cluster is in {adopted.vpc_id}, and the platform would create a VPC of its own"
        yield KEY, reason, f"run `trainway adopt {adopted.vpc_id}`, and write the section that it prints"
    elif network.vpc_id != adopted.vpc_id:
        reason = f"the cluster is in {adopted.vpc_id}, and the platform is in {network.vpc_id}"
        yield (*KEY, "vpc_id"), reason, f"run `trainway adopt {adopted.vpc_id}`, and write the section that it prints"
    _, _, _, region, _, name = adopted.arn.split(":", 5)
    if (region, name) != (platform.region, f"cluster/{adopted.name}"):
        reason = f"it is the ARN of {name.removeprefix('cluster/')} in {region}"
        remedy = f"run `trainway adopt {adopted.name}` for the cluster in {platform.region}"
        yield (*KEY, "arn"), reason, remedy


@rule
def the_api_of_an_existing_cluster_is_in_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The address of a Kubernetes API has the Region of its cluster."""
    adopted = platform.adopted_cluster
    if adopted and f".{platform.region}." not in adopted.endpoint and ".eks.amazonaws.com" in adopted.endpoint:
        reason = f"it is the API of a cluster in another Region than {platform.region}"
        yield (*KEY, "endpoint"), reason, f"run `trainway adopt {adopted.name}`, and write what it prints"


@rule
def an_existing_cluster_lets_the_platform_in(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """An existing cluster allows access entries, and its API answers inside the VPC.

    https://docs.aws.amazon.com/eks/latest/eksctl/access-entries.html (read 2026-11-26)
    """
    adopted = platform.adopted_cluster
    if adopted is None:
        return
    update = f"`aws eks update-cluster-config --region {platform.region} --name {adopted.name}"
    if adopted.authentication_mode == "CONFIG_MAP":
        reason = "the cluster allows no access entries, by which the deploy lets builds and people in"
        remedy = f"run {update} --access-config authenticationMode=API_AND_CONFIG_MAP`, {AGAIN}"
        yield (*KEY, "authentication_mode"), reason, remedy
    if not adopted.private_access:
        reason = "the Kubernetes API does not answer inside the VPC, from where nodes and builds call it"
        remedy = f"run {update} --resources-vpc-config endpointPrivateAccess=true`, {AGAIN}"
        yield (*KEY, "private_access"), reason, remedy


@rule
def settings_of_an_existing_cluster_stay_its_owners(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The file has no setting of the cluster itself if the cluster is an existing one, because no deploy changes it."""
    section = platform.kubernetes
    if section is None or section.existing is None:
        return
    for key in OF_THE_CLUSTER:
        if key in section.model_fields_set:
            reason = f"it is a setting of the cluster {section.existing.name}, which no deploy changes"
            yield ("kubernetes", key), reason, "remove the key, and change the cluster with the tool that created it"


@rule
def add_ons_of_an_existing_cluster_suffice(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The add-ons of an existing cluster have the versions and settings that the platform needs."""
    adopted = platform.adopted_cluster
    if adopted is None:
        return
    for name in EVERY_CLUSTER_HAS:
        if name not in adopted.addons:
            reason = (
                f"the cluster has no EKS add-on {name}, so that its copy is self-managed, which a deploy would replace"
            )
            own = "" if name == VPC_CNI else f", or write `{name}: {SELF_MANAGED}`"
            create = f"aws eks create-addon --cluster-name {adopted.name} --addon-name {name}"
            remedy = f"run `{create} --resolve-conflicts PRESERVE`, {AGAIN}{own}"
            yield (*KEY, "addons"), reason, remedy
    if VPC_CNI in adopted.addons:
        yield from _of_cni(platform, adopted)
    if FSX_DRIVER in adopted.addons and platform.storage.dynamic_volumes:
        reason = f"the role of the cluster's own {FSX_DRIVER} is its owner's, and may create no file systems"
        yield ("storage", "lustre", "dynamic_volumes"), reason, "remove the key"


def _of_cni(platform: Platform, adopted: ExistingCluster) -> Iterable[Breach]:
    """Yield the settings that the cluster's CNI lacks: prefix delegation and, for teams, network policies."""
    version, update = (
        adopted.addons[VPC_CNI],
        f"aws eks update-addon --cluster-name {adopted.name} --addon-name vpc-cni",
    )
    if version == SELF_MANAGED:
        reason = "its settings cannot be read from EKS, and the number of addresses of a node follows from them"
        create = f"aws eks create-addon --cluster-name {adopted.name} --addon-name {VPC_CNI}"
        yield (*KEY, "addons", VPC_CNI), reason, f"run `{create} --resolve-conflicts PRESERVE`, {AGAIN}"
        return
    if not adopted.cni.prefix_delegation:
        reason = "nodes of the platform take addresses by prefixes, for which its subnets and limits of pods are sized"
        values = '{"env": {"ENABLE_PREFIX_DELEGATION": "true"}}'
        remedy = f"add {values} to the configuration values of the add-on with `{update}`, {AGAIN}"
        yield (*KEY, "cni"), reason, remedy
    if not platform.teams:
        return
    if not adopted.cni.network_policy:
        reason = "network policies keep the pods of teams apart, and the cluster enforces none"
        values = '{"enableNetworkPolicy": "true"}'
        remedy = f"add {values} to the configuration values of the add-on with `{update}`, {AGAIN}"
        yield (*KEY, "cni"), reason, remedy
    if numbers(version.removeprefix("v").partition("-")[0]) < numbers(CNI_WITH_POLICIES):
        reason = f"network policies of teams need version {CNI_WITH_POLICIES}"
        yield (*KEY, "addons", VPC_CNI), reason, f"run `{update}` with a newer --addon-version, {AGAIN}"


@rule
def device_plugins_of_an_existing_cluster_are_used(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The platform allocates devices by one program: the device plugin of an existing cluster, or its own."""
    adopted, kubernetes = platform.adopted_cluster, platform.kubernetes_or_default
    if adopted is None:
        return
    for index, plugin in enumerate(adopted.device_plugins):
        key, chosen = {
            "nvidia": ("gpu_devices", kubernetes.gpu_devices),
            "efa": ("efa_devices", kubernetes.efa_devices_or_default),
        }.get(plugin, ("", "plugin"))
        if chosen != "plugin":
            reason = f"`{key}` is {chosen}, and two programs would both allocate the devices of a node"
            yield (*KEY, "device_plugins", index), reason, f"write `{key}: plugin`, or keep yours off these nodes"


@rule
def a_deployed_platform_keeps_its_cluster(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A deployed platform stays in its cluster, because another one would leave jobs and queues behind."""
    lock, adopted = platform.lock, platform.adopted_cluster
    if not platform.orchestrator.is_kubernetes or lock.kubernetes_version is None:
        return
    now = adopted.name if adopted else None
    if lock.adopted_cluster != now:
        was = f"the existing cluster {lock.adopted_cluster}" if lock.adopted_cluster else "a cluster of its own"
        remedy = "deploy a platform with another `name` beside this one, and destroy this one when its jobs have ended"
        yield KEY if adopted else ("kubernetes",), f"the platform was deployed with {was}", remedy
