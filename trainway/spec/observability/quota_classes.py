"""The EC2 quotas that limit how far the node groups of a platform grow."""

from __future__ import annotations

from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.instance import CapacityKind
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator


def quota_classes(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the classes by which CloudWatch counts the vCPUs of on-demand groups that can grow.

    A group of a fixed size uses its quota up on purpose. CloudWatch counts no quotas of HyperPod.
    """
    if platform.orchestrator is not Orchestrator.EKS:
        return ()
    growing = [each for each in platform.node_groups if each.capacity == "on-demand" and each.largest > each.count]
    codes = {types.quota_codes.get(CapacityKind.ON_DEMAND) for each in growing for types in types_of(each, catalogue)}
    known = service_facts().ec2_quotas.classes
    return tuple(sorted(known[code] for code in codes if code in known))
