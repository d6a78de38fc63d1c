"""Rules about teams: names, guarantees, people, data, and directories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, rule
from trainway.spec.sections.fields import PRINT_YOUR_ROLE
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.storage.lustre_rules import LUSTRE
from trainway.spec.teams.personas import personas
from trainway.spec.teams.team_data import own_prefixes

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


@rule
def somebody_is_let_in(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A Kubernetes platform names somebody who may use it: an administrator, a viewer, or a member of a team.

    Access entries are the only way in. EKS could let in whoever creates the cluster, but that is CloudFormation's own
    role, which no person can assume, and the setting can never be changed (docs/people.md).
    """
    if platform.orchestrator.is_kubernetes and not any(personas(platform)):
        reason = (
            "nobody could use the cluster: the file names no admins, no viewers, and no members of a team, and a "
            "deploy lets nobody else in, not even the person who runs it"
        )
        remedy = (
            'name your IAM role, for example `kubernetes: {admins: ["arn:aws:iam::111122223333:role/Admin"]}`; '
            f"`{PRINT_YOUR_ROLE}` prints the ARN of yours"
        )
        yield ("kubernetes", "admins"), reason, remedy


@rule
def the_endpoint_of_a_closed_network_is_private(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A closed network has no public endpoint: nothing on the internet reaches it."""
    if platform.kubernetes and platform.kubernetes.endpoint and platform.network.is_closed:
        reason = "the network is closed: nothing on the internet reaches anything of the platform"
        yield ("kubernetes", "endpoint"), reason, "write `endpoint: private`, or leave it out"


@rule
def team_prefixes_are_for_teams(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Prefixes of teams need teams."""
    bucket, key = platform.storage.bucket, ("storage", "bucket", "team_prefixes")
    if bucket.team_prefixes and not platform.teams:
        yield key, "the file names no teams", "name teams, or remove it"
    if bucket.team_prefixes:
        return
    reason, remedy = "all teams share all prefixes", "set storage.bucket.team_prefixes to true, or remove it"
    if bucket.shared:
        yield ("storage", "bucket", "shared"), reason, remedy
    for index, team in enumerate(platform.teams):
        if team.data:
            yield ("teams", index, "data"), reason, remedy


# On EKS, a team has five resources in the cluster's stack, and the largest number of node groups has 280. A stack has
# at most 500 resources and 1 MB, and the parameter with the hand-off 8 KB.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
# https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html
# (read 2026-11-29)
MOST_TEAMS_WITH_PREFIXES = 40


@rule
def the_roles_of_teams_fit_into_a_stack(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No more than 40 teams have prefixes of their own, because a stack with the roles of more teams is too large."""
    count = len(platform.teams)
    if platform.storage.bucket.team_prefixes and count > MOST_TEAMS_WITH_PREFIXES:
        reason = (
            f"each of the {count} teams has a prefix and roles of its own, and the roles of {MOST_TEAMS_WITH_PREFIXES} "
            "teams fit into a stack"
        )
        remedy = (
            "deploy another platform for the other teams, or let all teams share: storage.bucket.team_prefixes: false"
        )
        yield ("teams", MOST_TEAMS_WITH_PREFIXES), reason, remedy


@rule
def a_prefix_belongs_to_one_team(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No prefix of a team contains a prefix of another team."""
    for index, team in enumerate(platform.teams):
        for position, prefix in enumerate(team.data):
            key: KeyPath = ("teams", index, "data", position)
            for other in platform.teams:
                both = next((each for each in own_prefixes(other) if _overlap(prefix, each)), None)
                if other.name != team.name and both:
                    reason = f"{both} belongs to the team {other.name}"
                    yield key, reason, "remove it, or share a prefix with all teams in storage.bucket.shared"
                    break


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


@rule
def team_directories_are_for_teams_in_kubernetes(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Directories of teams need prefixes of teams, on an orchestrator with Kubernetes."""
    if not platform.storage.team_directories:
        return
    if not platform.orchestrator.is_kubernetes:
        reason = "on a Slurm cluster each node mounts the whole file system for all jobs"
        yield (*LUSTRE, "team_directories"), reason, "remove it, or use an orchestrator with Kubernetes"
    elif not platform.storage.bucket.team_prefixes:
        reason = "all teams share the bucket, which has the code and the results of every run"
        yield (*LUSTRE, "team_directories"), reason, "set storage.bucket.team_prefixes to true, or remove it"


@rule
def team_directories_are_not_linked_to_s3(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No prefix that is linked to S3 is in the directory of a team."""
    lustre, reason = platform.storage.lustre, "jobs mount the directory of their team, and nothing that is linked to S3"
    if lustre is None or not lustre.team_directories:
        return
    share = "set storage.lustre.team_directories to false, so that all teams share the file system"
    if lustre.mirror:
        yield (*LUSTRE, "mirror"), reason, f"remove it, and name data in S3, for example s3:/corpus/TEAM, or {share}"
    if lustre.import_from:
        yield (*LUSTRE, "import_from"), reason, f"remove it, and read the prefix from S3, or {share}"
    if lustre.existing and lustre.existing.associations:
        yield (*LUSTRE, "team_directories"), reason, f"adopt a file system that is not linked, or {share}"


@rule
def root_can_open_team_directories(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Root is not squashed, because root creates the directories of teams."""
    lustre = platform.storage.lustre
    if lustre and lustre.team_directories and lustre.root_squash and lustre.root_squash.uid:
        reason = "nodes create the directories of teams as root"
        remedy = "remove it, because no team can mount the directory of another team, or set team_directories to false"
        yield (*LUSTRE, "root_squash"), reason, remedy
