"""Rules about deploys: keys of other orchestrators, dates, and what no later deploy can change."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.network.subnets import SubnetRole, node_subnet_name
from trainway.spec.platform import Platform
from trainway.spec.rule import Breach, rule


@rule
def sections_match_the_orchestrator(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A section about one orchestrator does not stand in a file for another."""
    chosen = platform.orchestrator
    if platform.slurm and chosen.is_kubernetes:
        yield ("slurm",), f"the orchestrator is {chosen.value}, which has no Slurm", "remove the section"
    if platform.hyperpod and not chosen.is_hyperpod:
        yield ("hyperpod",), f"the orchestrator is {chosen.value}, which is not HyperPod", "remove the section"
    if platform.kubernetes and not chosen.is_kubernetes:
        yield ("kubernetes",), f"the orchestrator is {chosen.value}, which has no Kubernetes", "remove the section"


@rule
def what_only_kubernetes_has_is_not_asked_of_slurm(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod's add-ons and Karpenter are for EKS."""
    if platform.hyperpod is None or platform.orchestrator.is_kubernetes:
        return
    only_on_eks = (
        "autoscaling",
        "observability",
        "spaces",
        "task_governance",
        "training_operator",
    )
    for key in only_on_eks:
        if key in platform.hyperpod.model_fields_set and getattr(platform.hyperpod, key):
            reason = "HyperPod has it on EKS only"
            instead = "write `observability: true` in `slurm`" if key == "observability" else "use hyperpod-eks"
            yield ("hyperpod", key), reason, f"remove the key, or {instead}"


@rule
def the_vpc_keeps_its_range(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The range of a deployed VPC stays as it is."""
    deployed = platform.lock.vpc_cidr
    if deployed and platform.network.cidr != deployed:
        reason = f"the platform was deployed with {deployed}, and the range of a VPC cannot change"
        yield ("network", "cidr"), reason, f"write {deployed}, or deploy a platform with another `name` beside this one"


@rule
def node_groups_stay_in_their_zones(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The nodes of a deployed group stay in the zone of their subnet."""
    adopted = platform.network.existing.subnets if platform.network.existing else {}
    for index, group in enumerate(platform.node_groups):
        name = node_subnet_name(group)
        deployed = platform.lock.subnets.get(name)
        if deployed and name not in adopted and platform.zone_of(group) != deployed.zone:
            reason = f"the subnet of {group.name} was deployed in {deployed.zone}, and a subnet cannot change its zone"
            remedy = f"write `zone: {deployed.zone}`, or give the group in the other zone another name"
            yield ("node_groups", index, "zone"), reason, remedy


@rule
def the_zones_stay(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A deployed platform has no other zones than before. Only under Slurm it may have more.

    Every zone has the cluster's own network, which nodes and endpoints use. "All subnets that you add must be in the
    same set of AZs as originally provided when you created the cluster":
    https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (read 2026-11-22)
    """
    prefix = f"{SubnetRole.CLUSTER}-"
    deployed = [subnet.zone for name, subnet in platform.lock.subnets.items() if name.startswith(prefix)]
    if gone := [zone for zone in deployed if zone not in platform.zones]:
        reason = f"the platform was deployed with {' and '.join(gone)}, where the cluster's own network is"
        yield ("zones",), reason, f"keep {' and '.join(gone)} in the list; groups can have another `zone`"
    for index, zone in enumerate(platform.zones):
        if deployed and zone not in deployed and zone in platform.region_zones and platform.orchestrator.is_kubernetes:
            reason = f"the EKS cluster was created with {' and '.join(deployed)}, and can have no other zones"
            remedy = "leave it out, or deploy a platform with another `name` beside this one"
            yield ("zones", index), reason, remedy
