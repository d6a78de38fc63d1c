"""What a platform file must satisfy across its keys: one function a rule, every rule run, every breach reported.

A rule yields `(key path, reason, remedy)` and never raises; `RULES` is the whole list, in the order of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from trainway.spec.addressing import AddressesDoNotFit, plan_addresses
from trainway.spec.capacity import TrainingPlan, capacity_kind
from trainway.spec.catalogue import Catalogue
from trainway.spec.endpoints import makes_gateway
from trainway.spec.platform import Orchestrator, Platform
from trainway.spec.problems import KeyPath
from trainway.spec.services import service_facts
from trainway.spec.subnets import node_subnets, shared_subnets
from trainway.spec.system_pods import misfit

Breach = tuple[KeyPath, str, str]
Rule = Callable[[Platform, Catalogue], Iterator[Breach]]


def zone_prefix(region: str) -> str:
    """The start of every zone id of a Region: `us-west-2` → `usw2`, `ap-northeast-1` → `apne1`.

    The pattern is that of https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html
    """
    initials = {"north": "n", "south": "s", "east": "e", "west": "w", "central": "c", "gov": "g"}
    initials |= {f"{a}{b}": a[0] + b[0] for a in ("north", "south") for b in ("east", "west")}
    first, *middle, number = region.split("-")
    return first + "".join(initials.get(word, word[0]) for word in middle) + number


def zones_belong_to_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Every zone id is one of the Region's."""
    prefix = zone_prefix(platform.region)
    for index, zone in enumerate(platform.zones):
        if zone.split("-")[0] != prefix:
            yield ("zones", index), f"it is not a zone of {platform.region}", f"ids of its zones begin with {prefix}-az"


def zones_are_named_once(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No zone stands twice."""
    for index, zone in enumerate(platform.zones):
        if zone in platform.zones[:index]:
            yield ("zones", index), "the zone stands twice", "name each zone once"


def eks_has_its_zones(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """An EKS control plane is spread over two zones or more."""
    needed = service_facts().eks.control_plane_zones
    if platform.orchestrator.is_kubernetes and len(set(platform.zones)) < needed:
        yield (
            ("zones",),
            f"an EKS control plane needs subnets in {needed} zones",
            "add a second zone id; nodes still go to the first zone only",
        )


def sections_match_the_orchestrator(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A section about one orchestrator does not stand in a file for another."""
    chosen = platform.orchestrator
    if platform.slurm and chosen.is_kubernetes:
        yield ("slurm",), f"the orchestrator is {chosen.value}, which has no Slurm", "remove the section"
    if platform.hyperpod and not chosen.is_hyperpod:
        yield ("hyperpod",), f"the orchestrator is {chosen.value}, which is not HyperPod", "remove the section"
    if platform.kubernetes and not chosen.is_kubernetes:
        yield ("kubernetes",), f"the orchestrator is {chosen.value}, which has no Kubernetes", "remove the section"


def what_only_kubernetes_has_is_not_asked_of_slurm(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod's add-ons, Karpenter, tiered checkpoints and deep health checks on start are for EKS."""
    if platform.hyperpod is None or platform.orchestrator.is_kubernetes:
        return
    only_on_eks = (
        "autoscaling",
        "checkpoint_memory_percent",
        "deep_health_checks",
        "observability",
        "task_governance",
        "training_operator",
    )
    for key in only_on_eks:
        if key in platform.hyperpod.model_fields_set and getattr(platform.hyperpod, key):
            reason = "HyperPod has it on EKS only"
            yield ("hyperpod", key), reason, "remove the key, or use the orchestrator hyperpod-eks"


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
    if any(name not in catalogue for _, name in _instance_types(platform)):
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


def node_groups_are_named_once(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Node group names are unique, and none takes the name of a group that the platform adds."""
    seen = Counter[str]()
    for index, group in enumerate(platform.node_groups):
        seen[group.name] += 1
        if seen[group.name] > 1:
            yield ("node_groups", index, "name"), "another node group has this name", "give each group its own name"
        if group.name in ("system", "controller", "login"):
            remedy = "choose another name; that group is described under `kubernetes` or `slurm`"
            yield ("node_groups", index, "name"), "the platform itself has a group of this name", remedy


def instance_types_are_known(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Every instance type is in the catalogue; the platform's own nodes have no accelerator."""
    for key, name in _instance_types(platform):
        if name not in catalogue:
            close = catalogue.suggest(name)
            remedy = f"did you mean {' or '.join(close)}?" if close else "`trainway instances` lists what there is"
            yield key, "the instance catalogue has no such type", remedy
        elif key[0] != "node_groups" and catalogue[name].accelerator is not None:
            yield key, "an accelerated type would be idle here", "use a CPU type such as m7i.2xlarge"


def _instance_types(platform: Platform) -> Iterator[tuple[KeyPath, str]]:
    for index, group in enumerate(platform.node_groups):
        yield ("node_groups", index, "instance_type"), group.instance_type
    if platform.kubernetes:
        yield ("kubernetes", "system_nodes", "instance_type"), platform.kubernetes.system_nodes.instance_type
    if platform.slurm:
        yield ("slurm", "controller", "instance_type"), platform.slurm.controller.instance_type
        if platform.slurm.login:
            yield ("slurm", "login", "instance_type"), platform.slurm.login.instance_type


def hyperpod_offers_the_types(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod has every instance type that one of its groups asks for."""
    if not platform.orchestrator.is_hyperpod:
        return
    for key, name in _instance_types(platform):
        managed_by_eks = key[0] == "kubernetes"
        if name in catalogue and catalogue[name].hyperpod_name is None and not managed_by_eks:
            yield key, "SageMaker HyperPod does not offer this type", "choose another type, or the orchestrator eks"


def counts_are_in_order(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A group never starts larger than it may grow."""
    for index, group in enumerate(platform.node_groups):
        if group.max_count is not None and group.max_count < group.count:
            yield (
                ("node_groups", index, "max_count"),
                f"it is less than count, which is {group.count}",
                f"write {group.count} or more, or leave it out",
            )


def max_pods_can_be_run(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """A node is told to run no more pods than EKS lets its type run, and only where there is somebody to tell."""
    for index, group in enumerate(platform.node_groups):
        key: KeyPath = ("node_groups", index, "max_pods")
        if group.max_pods is None or group.instance_type not in catalogue:
            continue
        most = catalogue[group.instance_type].pod_capacity(prefix_delegation=True)
        if platform.orchestrator is not Orchestrator.EKS:
            yield key, f"{platform.orchestrator.value} nodes are not told how many pods to run", "remove the key"
        elif group.max_pods > most:
            yield key, f"EKS lets a {group.instance_type} node run {most} pods", f"write {most} or less"


def node_group_zones_are_listed(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A group's zone is one that the platform has subnets in."""
    for index, group in enumerate(platform.node_groups):
        if group.zone and group.zone not in platform.zones:
            remedy = f"use one of {', '.join(platform.zones)}, or add it to `zones`"
            yield ("node_groups", index, "zone"), "the platform has no subnets in this zone", remedy


def capacity_fits_the_orchestrator(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """EC2 reservations are for EKS, training plans for HyperPod, and the type can be bought that way at all.

    Spot: https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-spot.html, and NodeProvisioningMode in
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateCluster.html (read 2026-11-21)
    """
    hyperpod = platform.orchestrator.is_hyperpod
    for index, group in enumerate(platform.node_groups):
        key: KeyPath = ("node_groups", index, "capacity")
        kind = capacity_kind(group.capacity)
        if hyperpod and kind in ("reservation", "capacity-block"):
            yield key, "HyperPod cannot use EC2 capacity reservations", "buy a training plan whose target is HyperPod"
        elif not hyperpod and kind == "training-plan":
            remedy = "use a reservation or a Capacity Block, or the orchestrator hyperpod-eks"
            yield key, "training plans belong to HyperPod; plain EKS nodes cannot use them", remedy
        elif group.instance_type in catalogue and kind not in catalogue[group.instance_type].capacity_kinds:
            offered = ", ".join(sorted(catalogue[group.instance_type].capacity_kinds))
            yield key, f"{group.instance_type} is not sold as {kind}", f"it can be bought as {offered}"
        if kind == "spot" and platform.orchestrator is Orchestrator.HYPERPOD_SLURM:
            reason = "HyperPod replaces Spot nodes by continuous provisioning, which it has on EKS only"
            yield key, reason, "use on-demand or a training plan, or the orchestrator hyperpod-eks"
        if isinstance(group.capacity, TrainingPlan) and platform.region not in group.capacity.training_plan.split(":"):
            yield key, f"the training plan is not in {platform.region}", "use a plan of the platform's Region"


def lustre_capacity_is_sold(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The file system's capacity is one that FSx sells at that throughput, with or without EFA."""
    lustre, facts = platform.storage.lustre, service_facts().lustre
    key: KeyPath = ("storage", "lustre", "capacity_tib")
    if lustre.efa:
        step = facts.efa_capacity_step_gib[lustre.throughput_mbps_per_tib]
        if lustre.capacity_gib % step:
            speed = f"{lustre.throughput_mbps_per_tib} MB/s per TiB"
            reason = f"with EFA at {speed}, capacity comes in steps of {step / 1000} TiB"
            above = (lustre.capacity_gib // step + 1) * step
            yield key, reason, f"write {above / 1000}, or a higher throughput, whose steps are smaller"
    elif lustre.capacity_gib not in facts.capacity_gib and lustre.capacity_gib % facts.capacity_step_gib:
        above = (lustre.capacity_gib // facts.capacity_step_gib + 1) * facts.capacity_step_gib
        sizes = ", ".join(str(gib / 1000) for gib in facts.capacity_gib)
        yield key, f"FSx sells {sizes} TiB and then steps of {facts.capacity_step_gib / 1000}", f"write {above / 1000}"


# Namespaces that Kubernetes, EKS and the charts make, and the group of those who only look.
NOT_A_TEAM = {
    "default",
    "viewers",
    "amazon-cloudwatch",
    "aws-hyperpod",
    "hyperpod-observability",
    "kubeflow-system",
    "kueue-system",
    "mpi-operator",
}


def teams_share_what_exists(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Teams have their own names, and their guarantees add up to no more nodes than there can be."""
    nodes = Counter[str]()
    for group in platform.node_groups:
        nodes[group.instance_type] += group.largest
    promised, names = Counter[str](), set[str]()
    for index, team in enumerate(platform.teams):
        if team.name in NOT_A_TEAM or team.name.startswith("kube-"):
            reason = "the name is a namespace or a group of the cluster's own"
            yield ("teams", index, "name"), reason, "give the team another name"
        if team.name in names:
            yield ("teams", index, "name"), "another team has this name", "give each team its own name"
        names.add(team.name)
        for instance_type, count in team.guarantee.items():
            key: KeyPath = ("teams", index, "guarantee", instance_type)
            promised[instance_type] += count
            if instance_type not in nodes:
                yield key, "no node group has this instance type", f"there are {', '.join(sorted(nodes))}"
            elif promised[instance_type] > nodes[instance_type]:
                reason = (
                    f"guarantees add up to {promised[instance_type]} nodes, and there can be {nodes[instance_type]}"
                )
                yield key, reason, "lower a guarantee or raise a group's max_count"


def people_have_somewhere_to_go(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Kubernetes lets people in; who comes to a Slurm cluster is said by AWS Systems Manager."""
    everybody = (
        *platform.kubernetes_or_default.admins,
        *platform.kubernetes_or_default.viewers,
        *(member for team in platform.teams for member in team.members),
    )
    if not platform.orchestrator.is_kubernetes:
        reason = "under Slurm there is no Kubernetes to let anybody into"
        for index, team in enumerate(platform.teams):
            if team.members:
                yield ("teams", index, "members"), reason, "leave it out; whoever may start a session on a node gets in"
        if platform.iam.persona_roles:
            yield ("iam", "persona_roles"), reason, "leave it out"
    elif platform.iam.persona_roles and not everybody:
        reason = "the file names nobody who could assume a role"
        yield (
            ("iam", "persona_roles"),
            reason,
            "name people in kubernetes.admins, kubernetes.viewers or a team's members",
        )


def addresses_fit(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Every subnet finds room in the VPC's range."""
    if any(name not in catalogue for _, name in _instance_types(platform)):
        return  # reported by its own rule; there is nothing to size
    try:
        plan_addresses(platform, catalogue)
    except AddressesDoNotFit as error:
        yield ("network", "cidr"), str(error), error.remedy


def adopted_subnets_are_planned_ones(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """A subnet of an existing network stands for one of the plan's, in the same zone."""
    existing = platform.network.existing
    if existing is None or any(name not in catalogue for _, name in _instance_types(platform)):
        return
    needs = {n.name: n for n in (*shared_subnets(platform, catalogue), *node_subnets(platform, catalogue))}
    for name, adopted in existing.subnets.items():
        key: KeyPath = ("network", "existing", "subnets", name)
        if name not in needs:
            yield key, "the platform has no subnet of this name", f"its subnets are {', '.join(needs)}"
        elif adopted.zone != needs[name].zone:
            remedy = "adopt a subnet of that zone, or change `zones` or the group's `zone`"
            yield (*key, "zone"), f"the plan has {name} in {needs[name].zone}", remedy


def an_existing_network_says_where_new_subnets_go(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Subnets that are made in an existing VPC need a range there, and a route table."""
    existing = platform.network.existing
    if existing is None or any(name not in catalogue for _, name in _instance_types(platform)):
        return
    needs = (*shared_subnets(platform, catalogue), *node_subnets(platform, catalogue))
    made = [need.name for need in needs if need.name not in existing.subnets]
    if made and "cidr" not in platform.network.model_fields_set:
        reason = f"it has no `cidr`, and {', '.join(made)} must be made somewhere"
        yield ("network",), reason, "name a free range of the VPC as `cidr`, or subnets to use for all of them"
    if existing.route_table_id is None and (made or makes_gateway(platform)):
        used_by = ", ".join(made) or "the endpoint of S3"
        yield (
            ("network", "existing"),
            f"it has no `route_table_id`, which {used_by} needs",
            "name a private route table",
        )


def system_nodes_carry_their_pods(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """The add-ons' and charts' pods find room on the system nodes, also when one of two or more is lost."""
    system = platform.kubernetes_or_default.system_nodes.instance_type
    names = (system, *(name for _, name in _instance_types(platform)))
    if any(name not in catalogue for name in names) or catalogue[system].accelerator is not None:
        return  # reported by its own rule
    if platform.orchestrator.is_kubernetes and (found := misfit(platform, catalogue)):
        yield ("kubernetes", "system_nodes", "instance_type"), found.reason, found.remedy


RULES: tuple[Rule, ...] = (
    zones_belong_to_the_region,
    zones_are_named_once,
    eks_has_its_zones,
    sections_match_the_orchestrator,
    what_only_kubernetes_has_is_not_asked_of_slurm,
    a_volume_key_can_be_used,
    hyperpods_metrics_can_be_made_and_sent,
    addresses_fit,
    adopted_subnets_are_planned_ones,
    an_existing_network_says_where_new_subnets_go,
    node_groups_are_named_once,
    instance_types_are_known,
    hyperpod_offers_the_types,
    counts_are_in_order,
    max_pods_can_be_run,
    node_group_zones_are_listed,
    capacity_fits_the_orchestrator,
    lustre_capacity_is_sold,
    teams_share_what_exists,
    system_nodes_carry_their_pods,
    people_have_somewhere_to_go,
)
