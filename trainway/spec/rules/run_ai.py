"""What a platform needs so that Run:ai, which its owners install, can share the nodes between the teams."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.orchestrator import Orchestrator

QUEUES: KeyPath = ("kubernetes", "queues")


@rule
def run_ai_shares_alone(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Run:ai is for teams, and two schedulers would both give the same nodes away."""
    if platform.kubernetes_or_default.queues != "run-ai":
        return
    if not platform.teams:
        yield QUEUES, "the file names no teams, whose projects Run:ai could serve", "name teams, or remove the key"
    elif platform.task_governance:
        reason = "HyperPod's task governance shares the nodes, and Run:ai would share them a second time"
        yield QUEUES, reason, "write `task_governance: false` in `hyperpod`, or remove the key"


@rule
def run_ai_holds_the_quotas(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A project of Run:ai has its quota, its priority, and its share of idle nodes in Run:ai's control plane.

    https://docs.nvidia.com/run-ai/self-hosted/reference/cli/runai/project/runai-project-create (read 2026-11-23)
    """
    if not platform.run_ai:
        return
    for index, team in enumerate(platform.teams):
        for key in ("guarantee", "borrow", "priority"):
            if key in team.model_fields_set:
                reason = f"Run:ai's project {team.name} says what the team has, and Trainway does not change projects"
                yield ("teams", index, key), reason, "remove the key, and set the quota of the project in Run:ai"


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
        yield QUEUES, "Run:ai requires NVIDIA's GPU Operator", "add `gpu_devices: operator` to `kubernetes`"
