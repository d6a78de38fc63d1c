"""Where lists that others check a template against do not have what it needs, although AWS may have it.

cfn-lint compares templates with the resource types of CloudFormation's registry and with the types of the Price List.
Neither is complete: the registry lists some types late, and a type that is sold as a Capacity Block or a training plan
alone has no price. `check` reports the first as not verified. The stacks tell cfn-lint to pass over both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainway.spec.facts.offerings import load_offerings
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.sections.capacity import CapacityBlock

# cfn-lint's checks: the resource type exists in the Region, and an instance type of EC2 or of a HyperPod cluster does.
RESOURCE_TYPE, EC2_TYPE, HYPERPOD_TYPE = "E3006", "E3628", "E3644"


def ignored_checks(platform: Platform) -> dict[str, list[str]]:
    """Return the checks of cfn-lint that its lists decide wrongly, by the resource types of the templates."""
    ignored: dict[str, list[str]] = {name: [RESOURCE_TYPE] for name in _unlisted(platform)}
    if platform.orchestrator.is_hyperpod:
        if any(platform.region not in load_offerings().hyperpod.of(name) for name in _types_of_hyperpod(platform)):
            ignored["AWS::SageMaker::Cluster"] = [HYPERPOD_TYPE]
    elif any(platform.region not in load_offerings().on_demand.of(name) for name in _types_of_blocks(platform)):
        ignored["AWS::EC2::LaunchTemplate"] = [EC2_TYPE]
    return ignored


def unlisted(platform: Platform) -> tuple[str, ...]:
    """Return a sentence for each resource type of the platform that the registry does not list in its Region."""
    return tuple(
        f"region: on {_read()}, CloudFormation's registry did not list {name} in {platform.region}. It lists some "
        "types late. The deploy shows whether this one exists."
        for name in _unlisted(platform)
    )


def _unlisted(platform: Platform) -> Iterator[str]:
    """Yield the resource types that the platform has and the registry does not list."""
    has = {
        "AWS::CodeBuild::Project": True,
        "AWS::SageMaker::ComputeQuota": platform.task_governance,
        "AWS::Signer::SigningProfile": any(platform.of_image(name).image.sign for name in platform.image_names),
    }
    for name, regions in service_facts().registry.unlisted.items():
        if has[name] and platform.region in regions:
            yield name


def _types_of_hyperpod(platform: Platform) -> Iterable[str]:
    """Return the types of the instance groups. System nodes are node groups of EKS, whose types cfn-lint ignores."""
    names = [name for group in platform.node_groups for name in group.instance_types]
    if platform.orchestrator.is_kubernetes:
        return names
    heads = (platform.slurm_or_default.controller, platform.slurm_or_default.login)
    return [*names, *(head.instance_type for head in heads if head)]


def _types_of_blocks(platform: Platform) -> Iterable[str]:
    """Return the types that launch templates name. Node groups name the others, and cfn-lint ignores those."""
    return [group.instance_type for group in platform.node_groups if isinstance(group.capacity, CapacityBlock)]


def _read() -> str:
    return max(source.read for source in service_facts().registry.sources).isoformat()
