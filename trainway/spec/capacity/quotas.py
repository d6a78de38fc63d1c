"""The Service Quotas that a platform needs at its largest, from the catalogue's codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from trainway.spec.capacity.group_types import types_of
from trainway.spec.capacity.volumes import SYSTEM_VOLUME_GIB
from trainway.spec.facts.catalogue import CapacityKind, Catalogue, Instance
from trainway.spec.facts.services import Quota, service_facts
from trainway.spec.platform import Platform
from trainway.spec.sections.capacity import capacity_kind
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.orchestrator import Orchestrator

# The names of https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html and of
# https://docs.aws.amazon.com/sagemaker/latest/dg/reserve-capacity-with-training-plans.html (read 2026-11-21)
IN_PLANS = "Number of {} instances in reserved capacity across training plans per Region"
ON_SPOT = "{} for cluster spot instance usage"


@dataclass(frozen=True)
class QuotaNeed:
    """The amount of one account quota that a platform needs. If `code` is None, the quota is found by its name."""

    service: str
    name: str
    code: str | None
    needed: int


_Quota = tuple[str, str, str | None]


def quota_needs(platform: Platform, catalogue: Catalogue) -> tuple[QuotaNeed, ...]:
    """Return the quotas, each once, for every group at its `max_count`.

    EC2's quotas count vCPUs, and SageMaker's instances. FSx's count file systems, GiB, and MB/s, as their names state,
    and that of EBS counts TiB.
    """
    needed = Counter[_Quota]()
    for quota, amount in _of_nodes(platform, catalogue):
        needed[quota] += amount
    for quota, amount in (*_of_storage(platform), *_of_account(platform)):
        needed[quota] += amount
    return tuple(QuotaNeed(*quota, amount) for quota, amount in needed.items())


def _of_nodes(platform: Platform, catalogue: Catalogue) -> Iterator[tuple[_Quota, int]]:
    hyperpod, eks = platform.orchestrator.is_hyperpod, service_facts().eks
    for group in platform.node_groups:
        yield from _of_group(group, catalogue, hyperpod=hyperpod)
    if platform.orchestrator.is_kubernetes:
        # Those of nodes that may come later would refuse a deploy that succeeds.
        system = platform.kubernetes_or_default.system_nodes
        instance = catalogue[system.instance_type]
        count = system.count + eks.new_nodes_per_zone * len(platform.region_zones)
        yield _ec2(instance, CapacityKind.ON_DEMAND), count * instance.vcpus
    else:
        slurm = platform.slurm_or_default
        for head in filter(None, (slurm.controller, slurm.login)):
            yield _sagemaker(catalogue[head.instance_type], CapacityKind.ON_DEMAND), 1
    if hyperpod:
        nodes = sum(group.largest for group in platform.node_groups)
        heads = 0 if platform.orchestrator.is_kubernetes else 1 + (platform.slurm_or_default.login is not None)
        for name, code in service_facts().hyperpod.instance_quotas.items():
            yield ("sagemaker", name, code), nodes + heads


def _of_storage(platform: Platform) -> Iterator[tuple[_Quota, int]]:
    """Yield the quotas that the platform's new file systems use."""
    storage, lustre, openzfs = platform.storage, service_facts().lustre, service_facts().openzfs
    for own in storage.lustre_by_key.values():
        if own.existing is None:
            if own.is_scratch:
                file_systems, capacity = lustre.scratch_quotas
                yield ("fsx", file_systems, None), 1
                yield ("fsx", capacity, None), own.capacity_gib
                continue
            yield _fsx(lustre.file_systems_quota), 1
            if not own.is_elastic:
                yield _fsx(lustre.capacity_quota), own.capacity_gib
    if storage.home:
        yield _fsx(openzfs.file_systems_quota), 1
        yield _fsx(openzfs.capacity_quota), storage.home.capacity_gib
        yield _fsx(openzfs.throughput_quota), storage.home.throughput_mbps


def _of_account(platform: Platform) -> Iterator[tuple[_Quota, int]]:
    """Yield the quotas of which an account has few: networks, clusters, volumes, and builds at once."""
    facts = service_facts()
    if platform.network.existing is None:
        yield ("vpc", facts.vpc.vpcs_quota.name, facts.vpc.vpcs_quota.code), 1
        if not platform.network.is_closed:
            yield ("ec2", facts.vpc.addresses_quota.name, facts.vpc.addresses_quota.code), 1
    if platform.orchestrator.is_kubernetes and platform.adopted_cluster is None:
        yield ("eks", facts.eks.clusters_quota.name, facts.eks.clusters_quota.code), 1
    if platform.orchestrator is Orchestrator.EKS:
        groups = platform.node_groups
        yield ("eks", facts.eks.node_groups_quota.name, facts.eks.node_groups_quota.code), len(groups) + 1
        yield ("eks", facts.eks.nodes_quota.name, facts.eks.nodes_quota.code), max(each.largest for each in groups)
        system = platform.kubernetes_or_default.system_nodes.count * SYSTEM_VOLUME_GIB
        gib = system + sum(each.count * each.root_volume_gib for each in groups)
        yield ("ebs", facts.ebs.gp3_quota.name, facts.ebs.gp3_quota.code), ceil(gib / 1024)
    builds = facts.codebuild.builds_quotas
    has_image = any(platform.of_image(name).image.uri is None for name in platform.image_names)
    # A stage that builds an image has a larger computer than the others, and one that builds its base the largest.
    # No base is built in a closed network.
    large = ["BUILD_GENERAL1_LARGE"] if has_image and not platform.network.is_closed else []
    for size in ("BUILD_GENERAL1_SMALL", *(["BUILD_GENERAL1_MEDIUM"] if has_image else []), *large):
        yield ("codebuild", builds[size].name, builds[size].code), 1


def _fsx(quota: Quota) -> _Quota:
    return ("fsx", quota.name, quota.code)


def _of_group(group: NodeGroup, catalogue: Catalogue, *, hyperpod: bool) -> Iterator[tuple[_Quota, int]]:
    """Yield each type's quota, as if all nodes were of that type.

    Types with the same quota share it for the same nodes.
    """
    kind, most = CapacityKind(capacity_kind(group.capacity)), Counter[_Quota]()
    for instance in types_of(group, catalogue):
        quota = _sagemaker(instance, kind) if hyperpod else _ec2(instance, kind)
        most[quota] = max(most[quota], group.largest * (1 if hyperpod else instance.vcpus))
    yield from most.items()


def _ec2(instance: Instance, kind: CapacityKind) -> _Quota:
    """Return the EC2 quota of an instance type. A reservation counts against the on-demand quota, used or not."""
    bought = CapacityKind.ON_DEMAND if kind is CapacityKind.RESERVATION else kind
    code = instance.quota_codes.get(bought)
    unnamed = f"{bought.value} quota of {instance.name.split('.')[0]}"
    return ("ec2", service_facts().ec2_quotas.names.get(code or "", unnamed), code)


def _sagemaker(instance: Instance, kind: CapacityKind) -> _Quota:
    name = instance.hyperpod_name
    match kind:
        case CapacityKind.TRAINING_PLAN:
            return ("sagemaker", IN_PLANS.format(name), None)
        case CapacityKind.SPOT:
            return ("sagemaker", ON_SPOT.format(name), None)
        case _:
            return ("sagemaker", instance.hyperpod_quota_name or "", instance.hyperpod_quota_code)
