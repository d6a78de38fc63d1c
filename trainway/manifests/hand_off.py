"""The hand-off of a platform: what its file says, and the values that only a deploy knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainway.manifests.device_claims import claims_of_a_node
from trainway.manifests.job_kinds import launch_kinds
from trainway.manifests.lustre_volume import claim_of
from trainway.manifests.namespace import namespaces
from trainway.manifests.queue_labels import queue_labels
from trainway.manifests.training_runtime import runtime_of
from trainway.spec import handoff
from trainway.spec.capacity.devices import devices_of, ranks_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff_names import image_parameter_name, metrics_workspace_alias
from trainway.spec.jobs.obtainable import nodes_that_grow, team_shares
from trainway.spec.jobs.team_nodes import queue_of
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.storage import MOUNT_PATH, Lustre
from trainway.spec.storage.checkpoint_layout import GBPS_EACH, PART_BYTES, checkpoint_layout
from trainway.spec.storage.lustre_links import lustre_links
from trainway.spec.teams.team_data import team_prefixes


@dataclass(frozen=True)
class DeployedFileSystem:
    """What only a deploy knows of the Lustre file system that jobs mount."""

    file_system_id: str
    dns_name: str
    mount_name: str
    subnet_id: str
    security_group_id: str


@dataclass(frozen=True)
class DeployedValues:
    """The values of a hand-off that only a deploy knows. The platform file describes all others.

    `images` has the URIs of the images beside the default one, by their names. `training_jobs` is None for a platform
    without training jobs, and `file_system` for one without a file system.
    """

    bucket: str
    image_uri: str
    cluster_arn: str
    images: Mapping[str, str] = field(default_factory=dict)
    file_system: DeployedFileSystem | None = None
    training_jobs: handoff.TrainingJobs | None = None


def hand_off_document(platform: Platform, catalogue: Catalogue, deployed: DeployedValues) -> handoff.HandOff:
    """Return the hand-off of a platform with these values of its deploy."""
    lustre = platform.storage.lustre
    return handoff.HandOff(
        platform=platform.name,
        orchestrator=platform.orchestrator.value,
        region=platform.region,
        bucket=deployed.bucket,
        file_system=_file_system(lustre, deployed.bucket, deployed.file_system)
        if lustre and deployed.file_system
        else None,
        checkpoints=handoff.Checkpoints(
            prefixes=checkpoint_layout(platform, catalogue).prefixes,
            part_bytes=PART_BYTES,
            gbps_each=GBPS_EACH,
        ),
        image_uri=deployed.image_uri,
        image_parameter=image_parameter_name(platform.name),
        images=deployed.images,
        cluster=handoff.Cluster(
            name=platform.cluster_name,
            arn=deployed.cluster_arn,
            namespaces=namespaces(platform) if platform.orchestrator.is_kubernetes else (),
            job_labels=queue_labels(platform),
            job_kinds=launch_kinds(platform),
            queue=queue_of(platform),
        ),
        node_groups=tuple(_nodes(platform, catalogue, group) for group in platform.node_groups),
        teams=tuple(team.name for team in platform.teams),
        team_shares=team_shares(platform),
        team_data={
            team: handoff.TeamData(own=prefixes.own, shared=prefixes.shared)
            for team, prefixes in team_prefixes(platform).items()
        },
        training_jobs=deployed.training_jobs,
        metrics_workspace=metrics_workspace_alias(platform.name, is_hyperpod=platform.orchestrator.is_hyperpod)
        if collector_of(platform) in (Collector.AWS_MANAGED, Collector.AGENT)
        else None,
    )


def _file_system(lustre: Lustre, bucket: str, deployed: DeployedFileSystem) -> handoff.FileSystem:
    """Return the file system that jobs mount. Another one beside it needs its subnet and security group."""
    more = lustre.dynamic_volumes
    return handoff.FileSystem(
        file_system_id=deployed.file_system_id,
        dns_name=deployed.dns_name,
        mount_name=deployed.mount_name,
        mount_path=MOUNT_PATH,
        associations=lustre_links(lustre, bucket),
        claim=claim_of(lustre.generation),
        team_directories=lustre.team_directories,
        subnet_id=deployed.subnet_id if more else None,
        security_group_id=deployed.security_group_id if more else None,
    )


def _nodes(platform: Platform, catalogue: Catalogue, group: NodeGroup) -> handoff.Nodes:
    nodes = handoff.Nodes(
        name=group.name,
        instance_type=group.instance_type,
        or_types=group.or_types,
        **nodes_that_grow(platform, group, catalogue),
        ranks=ranks_of(group, catalogue[group.instance_type]),
        image=group.image,
    )
    if not platform.orchestrator.is_kubernetes:
        return nodes
    requested = {each.resource: each.count for each in devices_of(platform, group, catalogue) if not each.device_class}
    in_kubernetes = {
        "devices": requested,
        "claims": claims_of_a_node(platform, group, catalogue),
        "runtime": runtime_of(platform, group, catalogue),
    }
    return nodes.model_copy(update=in_kubernetes)
