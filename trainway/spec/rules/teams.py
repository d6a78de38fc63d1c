"""Teams: their names, their guarantees, their people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.orchestrator import Orchestrator

# Namespaces that Kubernetes, EKS and the charts make, the group of those who only look, and the queue in which the KAI
# scheduler looks for a job that names none.
NOT_A_TEAM = {
    "default",
    "default-queue",
    "viewers",
    "amazon-cloudwatch",
    "aws-hyperpod",
    "gpu-operator",
    "hyperpod-observability",
    "kai-resource-reservation",
    "kai-scale-adjust",
    "kai-scheduler",
    "kubeflow",
    "kubeflow-system",
    "kuberay-system",
    "kueue-system",
    "mpi-operator",
    "runai",
    "runai-backend",
}


@rule
def teams_share_what_exists(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Teams have their own names, and their guarantees add up to no more nodes than there can be."""
    nodes = Counter[str]()
    for group in platform.node_groups:
        nodes[group.instance_type] += group.largest
    uncertain = {
        name: group.name
        for group in platform.node_groups
        if group.or_types and platform.orchestrator is Orchestrator.HYPERPOD_EKS
        for name in group.instance_types
    }
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
            if instance_type in uncertain:
                reason = (
                    f"HyperPod keeps quotas by type, and a node of {uncertain[instance_type]} may be of another type"
                )
                yield key, reason, "guarantee a type that only groups without or_types have"
            elif instance_type not in nodes:
                yield key, "no node group has this instance type", f"there are {', '.join(sorted(nodes))}"
            elif promised[instance_type] > nodes[instance_type]:
                reason = (
                    f"guarantees add up to {promised[instance_type]} nodes, and there can be {nodes[instance_type]}"
                )
                yield key, reason, "lower a guarantee or raise a group's max_count"


@rule
def people_have_somewhere_to_go(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Kubernetes knows people as IAM principals; Slurm knows them by the names they log in with."""
    if not platform.orchestrator.is_kubernetes:
        reason = "under Slurm there is no Kubernetes to let anybody into"
        for index, team in enumerate(platform.teams):
            if team.members:
                yield ("teams", index, "members"), reason, "name the users that they log in as, in `users`"
        if platform.iam.persona_roles:
            yield ("iam", "persona_roles"), reason, "leave it out"
        return
    for index, team in enumerate(platform.teams):
        if team.users:
            reason = f"people come to {platform.orchestrator.value} as IAM principals, and not by login names"
            yield ("teams", index, "users"), reason, "name their roles or users in `members`"
