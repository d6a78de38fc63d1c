"""Rules about node groups: names, counts, instance types, devices, scaling, and repair."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator

from trainway.spec.capacity.devices import GPU_RESOURCE, device_classes
from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.facts.instance import EFA_RESOURCE
from trainway.spec.facts.node_repair import node_repair_facts
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, instance_types, rule
from trainway.spec.sections.capacity import TrainingPlan, capacity_kind
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.orchestrator import Orchestrator

# The ways to buy an instance type that an orchestrator's nodes cannot use.
NOT_TAKEN = {
    Orchestrator.EKS: {"training-plan"},
    Orchestrator.HYPERPOD_EKS: {"reservation", "capacity-block"},
    Orchestrator.HYPERPOD_SLURM: {"reservation", "capacity-block", "spot"},
}


@rule
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


@rule
def instance_types_are_known(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Every instance type is in the catalogue; the platform's own nodes have no accelerator."""
    for key, name in instance_types(platform):
        if name not in catalogue and (why := catalogue.why_left_out(name)):
            yield key, f"the platform does not support it: {why}", "`trainway instances` lists the supported types"
        elif name not in catalogue:
            close = catalogue.suggest(name)
            remedy = f"did you mean {' or '.join(close)}?" if close else "`trainway instances` lists what there is"
            yield key, "the instance catalogue has no such type", remedy
        elif key[0] != "node_groups" and catalogue[name].accelerator is not None:
            yield key, "an accelerated type would be idle here", "use a CPU type such as m7i.2xlarge"


@rule
def counts_are_in_order(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A group never starts larger than it may grow, nor waits for more nodes than it starts with."""
    for index, group in enumerate(platform.node_groups):
        if group.max_count is not None and group.max_count < group.count:
            yield (
                ("node_groups", index, "max_count"),
                f"it is less than count, which is {group.count}",
                f"write {group.count} or more, or leave it out",
            )
        if group.min_count > group.count:
            reason = f"it is more than count, which is {group.count}"
            yield ("node_groups", index, "min_count"), reason, f"write {group.count} or less"


@rule
def max_pods_can_be_run(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """A node is told to run no more pods than EKS lets its type run, and only where there is somebody to tell."""
    for index, group in enumerate(platform.node_groups):
        key: KeyPath = ("node_groups", index, "max_pods")
        if group.max_pods is None or not all(name in catalogue for name in group.instance_types):
            continue
        types = types_of(group, catalogue)
        smallest = min(types, key=lambda each: each.pod_capacity(prefix_delegation=True))
        most = smallest.pod_capacity(prefix_delegation=True)
        if platform.orchestrator is not Orchestrator.EKS:
            yield key, f"{platform.orchestrator.value} nodes are not told how many pods to run", "remove the key"
        elif group.max_pods > most:
            yield key, f"EKS lets a {smallest.name} node run {most} pods", f"write {most} or less"


@rule
def capacity_fits_the_orchestrator(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """EC2 reservations are for EKS, training plans for HyperPod, and the type can be bought that way at all.

    Spot, for EKS throughout: https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-spot.html
    (read 2026-11-21)
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
        else:
            for name in group.instance_types:
                if name in catalogue and kind not in catalogue[name].capacity_kinds:
                    offered = sorted(set(catalogue[name].capacity_kinds) - NOT_TAKEN[platform.orchestrator])
                    yield key, f"{name} is not sold as {kind}", f"it can be bought as {', '.join(offered)}"
        if kind == "spot" and platform.orchestrator is Orchestrator.HYPERPOD_SLURM:
            reason = "HyperPod has Spot nodes on EKS only, as far as is documented"
            yield key, reason, "use on-demand or a training plan, or the orchestrator hyperpod-eks"
        if isinstance(group.capacity, TrainingPlan) and platform.region not in group.capacity.training_plan.split(":"):
            yield key, f"the training plan is not in {platform.region}", "use a plan of the platform's Region"


ALONE = "put it into a node group of its own"


@rule
def several_types_can_be_asked_for(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod on EKS and EKS itself take the first available type, if nothing fixes it. No type is listed twice.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-scaling-eks.html, Flexible instance groups
    https://aws.amazon.com/about-aws/whats-new/2026/04/sagemaker-hyperpod-flexible-instance-groups/ (EKS only)
    https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html, capacity types
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateCapacityReservation.html
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ReservedCapacityOffering.html (all read 2026-11-21)
    """
    for index, group in enumerate(platform.node_groups):
        key: KeyPath = ("node_groups", index, "or_types")
        if group.or_types and platform.orchestrator is Orchestrator.HYPERPOD_SLURM:
            reason = "under Slurm, HyperPod makes a group of one instance type"
            yield key, reason, "make a node group of each type, or use the orchestrator hyperpod-eks"
        if group.or_types and not isinstance(group.capacity, str):
            reason = "what is reserved is of one instance type, and the group's nodes are all taken from it"
            yield key, reason, "leave it out, or buy on demand or on Spot"
        for number, name in enumerate(group.or_types):
            if name in group.instance_types[: number + 1]:
                yield (*key, number), "the group has this type already", "name each type once"


@rule
def several_types_serve_one_job(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """A pod that asks for all of a node's devices fits on every node of the group, and so does its image.

    Under EKS the group's nodes are also launched from one template, which names every network interface.
    https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (read 2026-11-21)
    """
    for index, group in enumerate(platform.node_groups):
        if group.instance_type not in catalogue:
            continue  # reported by its own rule
        first = catalogue[group.instance_type]
        for number, name in enumerate(group.or_types):
            other = catalogue.get(name)
            key: KeyPath = ("node_groups", index, "or_types", number)
            if other is None:
                continue
            if other.architecture != first.architecture:
                reason = (
                    f"its processors are {other.architecture}, and an image for {first.name} is {first.architecture}"
                )
                yield key, reason, ALONE
            elif (other.devices, other.ranks) != (first.devices, first.ranks):
                reason = f"a job asks for all that a node has: {_job(other)}, and {_job(first)} on a {first.name}"
                yield key, reason, ALONE
            elif platform.orchestrator is Orchestrator.EKS and _launched(other) != _launched(first):
                reason = (
                    f"its network interfaces or disks are not those of a {first.name}, and one launch template has both"
                )
                yield key, reason, ALONE


def _job(instance: Instance) -> str:
    devices = " and ".join(f"{count} {name}" for name, count in instance.devices.items()) or "no devices"
    return f"{devices} for {instance.ranks} ranks"


def _launched(instance: Instance) -> tuple[object, ...]:
    """What the launch template says of a type: its interfaces, and whether it has disks to put together."""
    return instance.interfaces, instance.instance_store is None


@rule
def hyperpod_scales_its_groups_itself(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The key of plain EKS stands in no file for HyperPod, which has one of its own."""
    written = platform.kubernetes is not None and "autoscaling" in platform.kubernetes.model_fields_set
    if written and platform.orchestrator.is_hyperpod:
        yield (
            ("kubernetes", "autoscaling"),
            "HyperPod scales its groups itself",
            "remove the key, or write `hyperpod: {autoscaling: true}`",
        )


@rule
def eks_repairs_its_own_nodes_alone(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod replaces its nodes itself, and has no such settings."""
    if platform.kubernetes_or_default.node_repair and platform.orchestrator.is_hyperpod:
        yield (
            ("kubernetes", "node_repair"),
            "HyperPod repairs its nodes itself, and takes no overrides",
            "remove the key; `hyperpod.node_recovery` switches HyperPod's own repair",
        )


@rule
def repairs_are_for_reasons_that_are_reported(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A reason that the agent never reports would be an override without effect, and each has one action."""
    repair, facts = platform.kubernetes_or_default.node_repair, node_repair_facts()
    seen = set[str]()
    for index, override in enumerate(repair.overrides if repair else ()):
        key = ("kubernetes", "node_repair", "overrides", index, "reason")
        if facts.condition_of(override.reason) is None:
            close = difflib.get_close_matches(override.reason, facts.reasons, n=1)
            read = facts.sources[0].read
            remedy = f"did you mean {close[0]}?" if close else f"write one of {', '.join(facts.reasons)}"
            yield key, f"the node monitoring agent reports no condition with this reason (read {read})", remedy
        if override.reason in seen:
            yield key, "another override is for this reason", "keep one of the two"
        seen.add(override.reason)


GPU_DEVICES: KeyPath = ("kubernetes", "gpu_devices")
EFA_DEVICES: KeyPath = ("kubernetes", "efa_devices")
# https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html#eks-efa-dra-vs-device-plugin
# https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-dra-device-plugin.html#eks-nvidia-dra-vs-plugin
# (both read 2026-11-21)
FIRST_WITH_DRA = (1, 34)


@rule
def hyperpod_has_device_plugins(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """EKS documents its DRA drivers for nodes of its own and of Karpenter's; HyperPod has an operator of its own.

    https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html#eks-efa-dra-vs-device-plugin
    https://github.com/aws/sagemaker-hyperpod-cli/tree/011ca927123e02b35a399935bbb3ab1905fe33c7/helm_chart/HyperPodHelmChart/charts/gpu-operator
    (both read 2026-11-21)
    """
    if not platform.orchestrator.is_hyperpod:
        return
    remedy = "remove the key, or use the orchestrator eks"
    kubernetes = platform.kubernetes_or_default
    for key, chosen in ((GPU_DEVICES, kubernetes.gpu_devices), (EFA_DEVICES, kubernetes.efa_devices)):
        if chosen == "dra":
            yield key, "AWS supports the DRA drivers on EKS's own nodes, and HyperPod's are not among them", remedy
        elif chosen == "operator":
            reason = "HyperPod has the GPU operator from its own chart and images, which the platform does not install"
            yield key, reason, remedy


@rule
def claims_are_served_by_the_kubernetes_version(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Pods claim devices since Kubernetes 1.34."""
    kubernetes = platform.kubernetes_or_default
    if tuple(int(part) for part in kubernetes.version.split(".")) >= FIRST_WITH_DRA:
        return
    for key, chosen in ((GPU_DEVICES, kubernetes.gpu_devices), (EFA_DEVICES, kubernetes.efa_devices)):
        if chosen == "dra":
            reason = f"AWS supports the DRA drivers from Kubernetes 1.34 on, and `version` is {kubernetes.version}"
            yield key, reason, 'write `version: "1.34"` or higher, or `plugin` here'


@rule
def queues_count_what_is_claimed(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Whoever admits a job must know which nodes still have what it claims.

    Kueue counts claims against quotas, and places pods by their requests alone: it may put two jobs on one node whose
    GPUs are claimed. Where GPUs are requested it sees a node that is taken, and with it the EFA devices, of which there
    is no template but that of all of them.
    https://github.com/kubernetes-sigs/kueue/blob/main/site/content/en/docs/concepts/dynamic_resource_allocation.md#limitations
    https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/pkg/scheduler/flavorassigner/tas_flavorassigner.go
    (NewRequestsFromPodSpec); https://github.com/kai-scheduler/KAI-Scheduler/blob/main/docs/dra/README.md#prerequisites
    (all read 2026-11-21)
    """
    kubernetes, classes = platform.kubernetes_or_default, device_classes(platform)
    if platform.kueue and kubernetes.gpu_devices == "dra":
        reason = "Kueue does not count claimed GPUs where it places jobs, and would put two jobs on one node"
        yield GPU_DEVICES, reason, "write `plugin` here, or `queues: none`"
    if platform.kai and classes:
        key = GPU_DEVICES if kubernetes.gpu_devices == "dra" else EFA_DEVICES
        yield key, "the KAI scheduler places no pods with claims, unless it is built up for them", "write `plugin` here"


@rule
def there_are_devices_to_give_out(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """What is asked for is installed for the devices of some node group."""
    names = [name for group in platform.node_groups for name in group.instance_types]
    if not platform.orchestrator.is_kubernetes or any(name not in catalogue for name in names):
        return  # reported by other rules
    kubernetes, instances = platform.kubernetes_or_default, [catalogue[name] for name in names]
    if kubernetes.gpu_devices != "plugin" and not any(GPU_RESOURCE in each.devices for each in instances):
        yield GPU_DEVICES, "no node group has NVIDIA GPUs", "remove the key"
    if kubernetes.efa_devices == "dra" and not any(EFA_RESOURCE in each.devices for each in instances):
        yield EFA_DEVICES, "no node group has EFA devices", "remove the key"


@rule
def mig_divides_what_can_be_divided(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """A profile is one of the group's GPUs, and the GPU operator is there to divide them by it."""
    for index, group in enumerate(platform.node_groups):
        key: KeyPath = ("node_groups", index, "mig")
        if group.mig is None:
            continue
        if platform.orchestrator is not Orchestrator.EKS:
            reason = f"with the orchestrator {platform.orchestrator.value}, nothing is installed that divides GPUs"
            yield key, reason, "remove the key, or use the orchestrator eks"
        elif platform.kubernetes_or_default.gpu_devices != "operator":
            reason = "GPUs are divided by the GPU operator, which the platform does not install"
            yield key, reason, "write `gpu_devices: operator` in `kubernetes`"
        types = [catalogue[name] for name in group.instance_types if name in catalogue]
        for instance in types:
            if not _fractions(group, instance):
                yield key, f"a {instance.name} has no GPUs with this profile", _profiles(instance)
            elif _fractions(group, instance) != _fractions(group, types[0]):
                reason = f"a {instance.name} has another number of such fractions than a {types[0].name}"
                yield key, reason, f"put {instance.name} into a node group of its own"


@rule
def kai_counts_no_fractions(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """KAI subtracts one GPU from a team's quota for each slice of a fraction, so quotas would run out too early.

    https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.17.0/pkg/scheduler/api/resource_info/gpu_resource_requirment.go
    (GetGpusQuota, read 2026-11-21)
    """
    for index, group in enumerate(platform.node_groups):
        if platform.kai and group.mig:
            reason = "the KAI scheduler counts each slice of a GPU as a whole one"
            yield ("node_groups", index, "mig"), reason, "remove the key, or write `queues: kueue` in `kubernetes`"


def _fractions(group: NodeGroup, instance: Instance) -> int:
    return instance.accelerator.fractions(group.mig) if instance.accelerator and group.mig else 0


def _profiles(instance: Instance) -> str:
    profiles = instance.accelerator.mig if instance.accelerator else {}
    return f"write one of {', '.join(profiles)}" if profiles else "remove the key; the catalogue has none for this type"
