"""Who gives devices to pods, and whether whoever shares out the nodes counts them then."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.devices import GPU_RESOURCE, device_classes
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.facts.instance import EFA_RESOURCE
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.orchestrator import Orchestrator

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
    """A fraction takes as many GPUs of a team's quota in KAI as it has slices, which is more than there are.

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
