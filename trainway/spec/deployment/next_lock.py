"""The lock of a platform before and after a deploy."""

from __future__ import annotations

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.kubernetes.ami_releases import SYSTEM_NODES
from trainway.spec.kubernetes.node_tags import locked_node_tags
from trainway.spec.lock import Lock, LockedSubnet
from trainway.spec.network.addressing import plan_addresses, service_cidr
from trainway.spec.platform import Platform
from trainway.spec.storage.locked_file_systems import locked_home, locked_lustre


def next_lock(platform: Platform, catalogue: Catalogue) -> Lock:
    """Return the lock of this platform once it is deployed. Resources of only earlier deploys are marked as leaving.

    A name that returns before its subnet is gone gets its subnet back. Everything else in the lock stays unchanged.
    """
    plan = plan_addresses(platform, catalogue)
    created = {
        subnet.name: LockedSubnet(cidr=subnet.cidr, zone=subnet.zone) for subnet in plan.subnets if not subnet.adopted
    }
    leaving = {name: subnet for name, subnet in platform.lock.subnets.items() if name not in created}
    groups = {SYSTEM_NODES, *(group.name for group in platform.node_groups)}
    fixed = {
        # If everything is adopted, no subnet uses this CIDR block yet.
        "vpc_cidr": platform.lock.vpc_cidr or (platform.network.cidr if created else None),
        "service_cidr": service_cidr(platform, plan) if platform.orchestrator.is_kubernetes else None,
        "subnets": dict(sorted((created | leaving).items())),
        "leaving": tuple(sorted(leaving)),
        "ami_releases": {name: pin for name, pin in platform.lock.ami_releases.items() if name in groups},
        "node_tags": locked_node_tags(platform),
    }
    return platform.lock.model_copy(update=fixed)


def deployed_lock(platform: Platform, catalogue: Catalogue) -> Lock:
    """Return the lock after a deploy, without the leaving resources, whose CIDR blocks are free again."""
    planned = {subnet.name for subnet in plan_addresses(platform, catalogue).subnets if not subnet.adopted}
    gone = {name for name in platform.lock.leaving if name not in planned}
    kept = {name: subnet for name, subnet in platform.lock.subnets.items() if name not in gone}
    version = platform.kubernetes_or_default.version if platform.orchestrator.is_kubernetes else None
    fixed = {
        "subnets": kept,
        "leaving": (),
        "kubernetes_version": version,
        "adopted_cluster": platform.adopted_cluster.name if platform.adopted_cluster else None,
        "lustre": locked_lustre(platform.storage.lustre),
        "former_lustre": locked_lustre(platform.storage.former_lustre),
        "home": locked_home(platform),
    }
    return platform.lock.model_copy(update=fixed)
