"""What a platform needs so that Run:ai can share the nodes between the teams, whoever installs it."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.orchestrator import Orchestrator

QUEUES: KeyPath = ("kubernetes", "queues")
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
