"""Rules about the Kubernetes cluster: versions, system nodes, and schedulers that share GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.kubernetes_versions import kubernetes_versions, numbers
from trainway.spec.kubernetes.ami_releases import OLDEST_KUBELET, minor_of, minors_behind, next_minor
from trainway.spec.kubernetes.charts import chart_names, docker_hub_login
from trainway.spec.kubernetes.system_pods import misfit
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, instance_types, published_rule, rule
from trainway.spec.sections.orchestrator import Orchestrator


@rule
def a_docker_hub_login_is_for_images_there(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """`kubernetes.docker_hub_login` is for the images of an operator that only Docker Hub has."""
    login = platform.kubernetes.docker_hub_login if platform.kubernetes else None
    if login is None or any(name not in catalogue for _, name in instance_types(platform)):
        return  # a type has a rule of its own
    if docker_hub_login(platform, chart_names(platform, catalogue)) is None:
        reason = "the platform copies no image from Docker Hub"
        remedy = "remove it, or install kubernetes.mpi_operator or kubernetes.pytorch_operator"
        yield ("kubernetes", "docker_hub_login"), reason, remedy


@rule
def the_kubernetes_version_exists(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """EKS has the version, and HyperPod supports it if the orchestrator is HyperPod's.

    The remedy names the default and newer versions, because standard support of an older one ends sooner or has ended.
    """
    facts, version, orchestrator = kubernetes_versions(), platform.kubernetes_or_default.version, platform.orchestrator
    if not orchestrator.is_kubernetes:
        return
    known = facts.of(hyperpod=orchestrator.is_hyperpod)
    if version in known:
        return
    by = "EKS"
    read = facts.eks.sources[0].read
    if orchestrator.is_hyperpod:
        by, read = "HyperPod on EKS", facts.hyperpod.sources[0].read
    newer = " or ".join(each for each in known if numbers(each) >= numbers(facts.default))
    remedy = (
        f"upgrade the cluster to {newer}, and adopt it again"
        if platform.adopted_cluster
        else f"write {newer}, in quotes"
    )
    yield (
        platform.kubernetes_version_key,
        f"{by} does not support Kubernetes {version} (read {read})",
        remedy,
    )


KEY: KeyPath = ("kubernetes", "version")


@rule
def the_control_plane_rises_by_one_minor_version(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A deployed control plane gets the next minor version, or keeps its own.

    https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html (read 2026-11-22)
    """
    deployed, wanted = platform.lock.kubernetes_version, platform.kubernetes_or_default.version
    # Its owner upgrades an adopted cluster, and a deploy does not touch it.
    if not platform.orchestrator.is_kubernetes or deployed is None or platform.adopted_cluster:
        return
    behind = minors_behind(deployed, wanted)
    if behind < 0:
        reason = f"the control plane has {deployed}, and a deploy does not bring it back to an older version"
        yield KEY, reason, f'write "{deployed}"'
    elif behind > 1:
        reason = f"the control plane has {deployed}, and EKS upgrades one minor version at a time"
        remedy = f'write "{next_minor(deployed)}", deploy, and run `trainway upgrade --check` for the next step'
        yield KEY, reason, remedy


@rule
def nodes_are_not_newer_than_the_control_plane(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The releases of the lock are of the control plane's minor version, or of one of the three before it."""
    wanted = platform.kubernetes_or_default.version
    if not platform.orchestrator.is_kubernetes:
        return
    for name, release in platform.lock.ami_releases.items():
        behind = minors_behind(minor_of(release), wanted)
        if behind < 0:
            reason = f"the lock has release {release} for nodes of {name}, which are not newer than the control plane"
            yield KEY, reason, f'write "{minor_of(release)}", or restore the lock of the last deploy from Git'
        elif behind > OLDEST_KUBELET:
            reason = f"nodes of {name} have release {release}, which is more than {OLDEST_KUBELET} minor versions older"
            yield KEY, reason, f"run `trainway upgrade` before this step, and deploy, so that {name} is newer"


@published_rule
def the_nodes_have_the_version_that_the_control_plane_leaves(
    platform: Platform, _catalogue: Catalogue
) -> Iterator[Breach]:
    """A control plane rises when the nodes of its managed groups have the version that it has now.

    AWS's pages disagree: this says the API, and the user guide's first step. Its considerations allow nodes that are up
    to three minor versions older.
    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterVersion.html
    https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html (both read 2026-11-30)
    """
    deployed, wanted = platform.lock.kubernetes_version, platform.kubernetes_or_default.version
    if not platform.orchestrator.is_kubernetes or deployed is None or platform.adopted_cluster:
        return
    if minors_behind(deployed, wanted) < 1:
        return
    for name, release in platform.lock.ami_releases.items():
        if minors_behind(minor_of(release), deployed) > 0:
            reason = f"nodes of {name} have release {release}, and EKS raises {deployed} when all managed nodes have it"
            remedy = f'write "{deployed}", run `trainway upgrade`, deploy, and then write "{wanted}"'
            yield KEY, reason, remedy


@rule
def system_nodes_carry_their_pods(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """The add-ons' and charts' pods find room on the system nodes, also when one of two or more is lost."""
    system = platform.kubernetes_or_default.system_nodes.instance_type
    names = (system, *(name for _, name in instance_types(platform)))
    if any(name not in catalogue for name in names) or catalogue[system].accelerator is not None:
        return  # reported by its own rule
    if platform.orchestrator.is_kubernetes and (found := misfit(platform, catalogue)):
        yield ("kubernetes", "system_nodes", "instance_type"), found.reason, found.remedy


# KAI counts GPUs, CPUs, and memory, each over all nodes together.
# https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/queues/README.md (read 2026-11-21)
QUEUES: KeyPath = ("kubernetes", "queues")
OR_KUEUE = "or write `queues: kueue`"


@rule
def kai_has_something_to_share(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The KAI scheduler is for teams, and for nodes that are not HyperPod's."""
    if platform.kubernetes_or_default.chosen_queues != "kai":
        return
    if platform.orchestrator.is_hyperpod:
        reason = f"with the orchestrator {platform.orchestrator.value}, HyperPod's task governance shares the nodes"
        yield QUEUES, reason, "remove the key, or use the orchestrator eks"
    elif not platform.teams:
        yield QUEUES, "the file names no teams, between whom it could share the nodes", "name teams, or remove the key"


@rule
def kai_counts_what_nodes_have(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """No queue of KAI's counts Neuron devices, so they would go to whoever comes first.

    https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/pkg/scheduler/api/resource_info/resource_requirment.go
    (GPUResourceName, amdGpuResourceName, read 2026-11-21)
    """
    if not platform.kai:
        return
    for index, group in enumerate(platform.node_groups):
        instance = catalogue.get(group.instance_type)
        if instance and instance.accelerator and instance.accelerator.vendor == "neuron":
            key: KeyPath = ("node_groups", index, "instance_type")
            yield key, "the KAI scheduler has no quota for Neuron devices", "write `queues: kueue` in `kubernetes`"


@rule
def kai_tells_guaranteed_nodes_apart(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """KAI guarantees nodes to a team only if no other quota applies to them, and the team's quota to no others.

    A taint keeps other pods off nodes with GPUs, so KAI tells one type with GPUs apart from all types without.
    """
    offers = dict.fromkeys(group.instance_type for group in platform.node_groups)
    if not platform.kai or any(name not in catalogue for name in offers):
        return  # the unknown type is reported by its own rule
    counted = [name for name in offers if catalogue[name].accelerator] or list(offers)
    for index, team in enumerate(platform.teams):
        for name, nodes in team.guarantee.items():
            others = [other for other in (counted if name in counted else offers) if other != name]
            if nodes and name in offers and others:
                reason = f"the KAI scheduler counts GPUs, CPUs and memory, and cannot tell {name} from {others[0]}"
                yield ("teams", index, "guarantee", name), reason, f"leave the guarantee out, {OR_KUEUE}"


# KAI counts GPUs, CPUs, and memory, each over all nodes together.
# https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/queues/README.md (read 2026-11-21)
RUN_AI: KeyPath = ("kubernetes", "run_ai")
# The node pool of the nodes of no other pool, which every cluster of Run:ai has.
# https://docs.nvidia.com/run-ai/self-hosted/documentation/platform-management/manage-ai-initiatives/resources/node-pools
# (read 2026-11-27)
EVERY_CLUSTER_HAS = "default"


@rule
def run_ai_shares_alone(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Run:ai is for teams, and two schedulers would both give the same nodes away."""
    kubernetes = platform.kubernetes_or_default
    if kubernetes.chosen_queues != "run-ai":
        return
    key = RUN_AI if kubernetes.run_ai else QUEUES
    if not platform.teams:
        yield key, "the file names no teams, whose projects Run:ai could serve", "name teams, or remove the key"
    elif platform.task_governance:
        reason = "HyperPod's task governance shares the nodes, and Run:ai would share them a second time"
        yield key, reason, "write `task_governance: false` in `hyperpod`, or remove the key"
    if kubernetes.run_ai and "queues" in kubernetes.model_fields_set and kubernetes.queues != "run-ai":
        reason = f"`run_ai` installs Run:ai, and {kubernetes.queues} would share the same nodes"
        if kubernetes.queues == "none":
            reason = "`run_ai` installs Run:ai, which is a queue"
        yield QUEUES, reason, "write `queues: run-ai`, or remove one of the two keys"


@rule
def run_ai_holds_the_quotas(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A project of a Run:ai that you install has its quota, priority, and share of idle nodes in Run:ai alone.

    https://docs.nvidia.com/run-ai/self-hosted/reference/cli/runai/project/runai-project-create (read 2026-11-23)
    """
    if not platform.run_ai or platform.installed_run_ai:
        return
    for index, team in enumerate(platform.teams):
        for key in ("guarantee", "borrow", "priority"):
            if key in team.model_fields_set:
                reason = f"Run:ai's project {team.name} says what the team has, and Trainway does not change projects"
                remedy = "remove the key, and set the quota of the project in Run:ai, or write a section `run_ai`"
                yield ("teams", index, key), reason, remedy


@rule
def run_ai_has_the_gpu_operator(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """The GPU Operator is a prerequisite of every installation of Run:ai. HyperPod's chart has the plugin instead.

    https://docs.nvidia.com/run-ai/self-hosted/documentation/installation-and-configuration/install/manual-helm/prerequisites-and-features
    (read 2026-11-23)
    """
    if not platform.run_ai or platform.orchestrator is not Orchestrator.EKS:
        return
    # An unknown type is reported by its own rule.
    types = [catalogue[name] for group in platform.node_groups for name in group.instance_types if name in catalogue]
    has_gpus = any(each.accelerator and each.accelerator.vendor == "nvidia" for each in types)
    if has_gpus and platform.kubernetes_or_default.gpu_devices != "operator":
        key = RUN_AI if platform.installed_run_ai else QUEUES
        yield key, "Run:ai requires NVIDIA's GPU Operator", "add `gpu_devices: operator` to `kubernetes`"


@rule
def run_ai_counts_gpus(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """A project's quota is a number of GPUs in the node pool of a group, so a guarantee is of nodes with GPUs."""
    if not platform.installed_run_ai:
        return
    for index, team in enumerate(platform.teams):
        for name, nodes in team.guarantee.items():
            instance = catalogue.get(name)
            has_gpus = instance and instance.accelerator and instance.accelerator.vendor == "nvidia"
            if instance and nodes and not has_gpus:
                reason = "it has no NVIDIA GPUs, and a project of Run:ai has a quota of GPUs"
                yield ("teams", index, "guarantee", name), reason, "remove the guarantee of this type"
    for index, group in enumerate(platform.node_groups):
        if group.name == EVERY_CLUSTER_HAS:
            reason = "Run:ai has a node pool of this name, for the nodes of no group"
            yield ("node_groups", index, "name"), reason, "give the node group another name"


@rule
def run_ai_comes_into_a_closed_network(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A closed network does not reach NVIDIA's registry, so Run:ai's images come from a registry that it reaches.

    https://docs.nvidia.com/run-ai/self-hosted/documentation/installation-and-configuration/config/advanced-cluster-configuration
    (global.image.registry, read 2026-11-27)
    """
    section = platform.installed_run_ai
    if section and platform.network.is_closed and section.registry is None:
        reason = "a closed network does not reach nvcr.io, which has Run:ai's images"
        remedy = (
            "copy the images of NVIDIA's air-gapped package into a registry that the VPC reaches, and write "
            f"`registry`. The VPC must also reach {section.control_plane}"
        )
        yield RUN_AI, reason, remedy
