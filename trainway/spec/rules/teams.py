"""Teams: their names, their guarantees, their people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach

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
