"""Published facts about AWS services, loaded from services.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import time
from functools import cache
from ipaddress import IPv4Network

from pydantic import BaseModel, ConfigDict, Field

from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.facts.instance import Source


class _Facts(BaseModel):
    """The base of facts that must name their source."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: tuple[Source, ...] = Field(min_length=1)


class Quota(BaseModel):
    """A Service Quota, by name and code."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    code: str


class IntelligentTieringFacts(BaseModel):
    """FSx for Lustre Intelligent-Tiering: steps of throughput in MB/s, and minimum and maximum cache per step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    throughput_step_mbps: int
    throughput_limit_mbps: int
    metadata_iops: tuple[int, ...]
    read_cache_gib_per_step: tuple[int, int]


class LustreFacts(_Facts):
    """FSx for Lustre, PERSISTENT_2.

    Capacities are in GiB, throughput in MB/s per TiB, and clients are instance families.
    """

    ports: tuple[tuple[int, int], ...]
    capacity_gib: tuple[int, ...]
    capacity_step_gib: int
    efa_capacity_step_gib: dict[int, int]
    metadata_iops: tuple[int, ...]
    metadata_iops_limit: int
    intelligent_tiering: IntelligentTieringFacts
    associations: int
    efa_connections: int
    efa_interfaces: dict[str, int]
    efa_interfaces_of_several_cards: int
    not_efa_clients: tuple[str, ...]
    gpudirect_clients: tuple[str, ...]
    regions: tuple[str, ...]
    slow_regions: tuple[str, ...]
    slow_regions_throughputs: tuple[int, ...]
    scratch_regions: tuple[str, ...]
    scratch_throughput_mbps_per_tib: int
    scratch_quotas: tuple[str, str]
    file_systems_quota: Quota
    capacity_quota: Quota

    @property
    def throughputs(self) -> tuple[int, ...]:
        """Return the throughputs per TiB of storage that FSx sells."""
        return tuple(self.efa_capacity_step_gib)


class OpenZfsFacts(_Facts):
    """FSx for OpenZFS in one zone: minimum and maximum capacity in GiB, and throughputs in MB/s."""

    ports: tuple[tuple[int, int], ...]
    capacity_gib: tuple[int, int]
    throughputs: tuple[int, ...]
    file_systems_quota: Quota
    capacity_quota: Quota
    throughput_quota: Quota


class S3Facts(_Facts):
    """Amazon S3: requests per second and prefix, and rules for bucket names."""

    writes_per_prefix: int
    reads_per_prefix: int
    account_namespace_suffix: str
    no_account_namespace: tuple[str, ...]
    name_length: int


class VpcFacts(_Facts):
    """Limits of Amazon VPC. Prefix lengths are the shortest and the longest."""

    reserved_addresses_per_subnet: int
    prefix_lengths: tuple[int, int]
    cidr_blocks: int
    shared_address_space: IPv4Network
    vpcs_quota: Quota
    addresses_quota: Quota


class EksFacts(_Facts):
    """Network requirements of EKS."""

    control_plane_addresses_per_subnet: int
    control_plane_zones: int
    refused_zones: tuple[str, ...]
    new_nodes_per_zone: int
    public_access_ranges: int
    service_cidrs: tuple[IPv4Network, ...]
    clusters_quota: Quota
    node_groups_quota: Quota
    nodes_quota: Quota


class EbsFacts(_Facts):
    """Limits of Amazon EBS."""

    gp3_quota: Quota


class CodeBuildFacts(_Facts):
    """Limits of CodeBuild: the quotas of builds that run at once, by the type of their computers."""

    builds_quotas: Mapping[str, Quota]


class EndpointFacts(_Facts):
    """VPC endpoint services, without `com.amazonaws.<region>.`.

    All are interfaces, in addition to the gateway of S3.
    """

    private: tuple[str, ...]
    closed: tuple[str, ...]
    closed_kubernetes: tuple[str, ...]
    closed_hyperpod: tuple[str, ...]
    closed_root_squash: tuple[str, ...]
    closed_slurm_secrets: tuple[str, ...]
    closed_slurm_metrics: tuple[str, ...]


class Ec2QuotaFacts(_Facts):
    """Names of EC2's quotas on instances, and their classes in CloudWatch, by code. Each counts vCPUs."""

    names: dict[str, str]
    classes: dict[str, str]


class CapacityBlockFacts(_Facts):
    """EC2 Capacity Blocks: sizes, and what happens before they end, in minutes before the end."""

    ends_at: time
    most_instances: int
    longest_days: int
    weeks_ahead: int
    terminates_minutes: int
    ultraserver_terminates_minutes: int
    eks_scales_down_minutes: int
    ultraserver_families: tuple[str, ...]


class MissingTypeFacts(_Facts):
    """Regions in which CloudFormation's registry does not have a type."""

    regions_without: tuple[str, ...]


class BudgetFacts(_Facts):
    """Regions in which CloudFormation's registry has AWS::Budgets::Budget."""

    regions: tuple[str, ...]


class RegistryFacts(_Facts):
    """Resource types of the templates, each with the Regions in which CloudFormation's registry does not list it."""

    unlisted: dict[str, tuple[str, ...]]


class TopologyFacts(_Facts):
    """Regions in which EC2 reports the network nodes above an instance."""

    regions: tuple[str, ...]


class HyperPodFacts(_Facts):
    """SageMaker's quotas on HyperPod instances of any type, name to code, and requirements of HyperPod's add-ons."""

    instance_quotas: dict[str, str]
    regions: tuple[str, ...]
    scheduler_config_regions: tuple[str, ...]
    observability_vcpus: int


class ServiceFacts(BaseModel):
    """The limits and names of AWS services, from services.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lustre: LustreFacts
    openzfs: OpenZfsFacts
    s3: S3Facts
    vpc: VpcFacts
    eks: EksFacts
    ebs: EbsFacts
    codebuild: CodeBuildFacts
    endpoints: EndpointFacts
    ec2_quotas: Ec2QuotaFacts
    capacity_blocks: CapacityBlockFacts
    hyperpod: HyperPodFacts
    registry: RegistryFacts
    topology: TopologyFacts
    collectors: MissingTypeFacts
    log_alarms: MissingTypeFacts
    budgets: BudgetFacts


@cache
def service_facts() -> ServiceFacts:
    """Return the facts of services.yaml, read once."""
    return ServiceFacts.model_validate(read_facts(FACTS / "services.yaml"))
