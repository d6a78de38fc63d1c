"""What a Slurm cluster's teams and accounting can be."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from trainway.spec.derived.slurm_accounts import BORROWED, ROLE_SETTINGS
from trainway.spec.derived.slurm_accounts import SETTINGS as TEAMS_SETTINGS
from trainway.spec.derived.team_data import has_team_roles_on_nodes
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.slurm_settings import slurm_settings
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, published_rule, rule

# The account, the QOS and the user that Slurm begins with: https://slurm.schedmd.com/accounting.html (read 2026-11-21).
FIRST_ACCOUNT, FIRST_QOS, FIRST_USER = "root", "normal", "root"
# What HyperPod keeps in slurm.conf, and what it would not find its nodes without.
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-scaling-slurm.html (read 2026-11-21)
# https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/tools/devops-agent/docs/hyperpod-mental-model.md
# (read 2026-11-22)
HYPERPODS_SETTINGS = (
    *("ClusterName", "SlurmctldHost", "SlurmctldAddr", "NodeName", "PartitionName", "Include", "SlurmctldParameters"),
    *("AuthType", "GresTypes", "TopologyPlugin", "AccountingStorageType", "AccountingStorageHost", "StateSaveLocation"),
)
# What lifecycle_scripts/slurm/platform_settings.py writes.
HEALTH_SETTINGS = (
    *("Prolog", "Epilog", "HealthCheckProgram", "HealthCheckInterval", "HealthCheckNodeState"),
    *("SchedulerParameters", "PrologFlags"),
)
LOGIN_SETTINGS = ("ProctrackType", "TaskPlugin")
PRIVATE_SETTINGS = ("JobContainerType", "NamespaceType")
# Keys of the lines of partitions and of nodes. slurmctld does not start with one of them on a line of its own. Others,
# such as DefMemPerGPU, are keys of the cluster, too.
# https://slurm.schedmd.com/slurm.conf.html (PARTITION CONFIGURATION and NODE CONFIGURATION, read 2026-11-29)
_OF_PARTITIONS = (
    *("AllocNodes", "AllowAccounts", "AllowGroups", "AllowQos", "Alternate", "CpuBind", "Default", "DefaultTime"),
    *("DenyAccounts", "DenyQos", "DisableRootJobs", "ExclusiveTopo", "ExclusiveUser", "GraceTime", "Hidden", "LLN"),
    *("MaxCPUsPerNode", "MaxCPUsPerSocket", "MaxNodes", "MaxTime", "MinNodes", "Nodes", "OverSubscribe"),
    *("PowerDownOnIdle", "PriorityJobFactor", "PriorityTier", "QOS", "ReqResv", "RootOnly", "State"),
    *("TRESBillingWeights", "Topology"),
)
_OF_NODES = (
    *("NodeHostname", "NodeAddr", "BcastAddr", "Boards", "CoreSpecCount", "CoresPerSocket", "CPUs", "CpuSpecList"),
    *("Features", "Gres", "MemSpecLimit", "Procs", "RealMemory", "Reason", "RestrictedCoresPerGPU", "Sockets"),
    *("SocketsPerBoard", "ThreadsPerCore", "TmpDisk", "Weight"),
)
# What stands for all partitions in slurm.conf, in any case.
DEFAULT_PARTITION = "default"


@rule
def teams_are_not_called_as_slurms_own(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A team is an account and a QOS of its name, and Slurm's own administrator is in none."""
    if platform.orchestrator.is_kubernetes:
        return
    for index, team in enumerate(platform.teams):
        if team.name in (FIRST_ACCOUNT, FIRST_QOS, BORROWED):
            reason = "it is an account or a QOS of the cluster's own"
            yield ("teams", index, "name"), reason, "give the team another name"
        for number, user in enumerate(team.users):
            key: KeyPath = ("teams", index, "users", number)
            if user == FIRST_USER:
                yield key, "Slurm's administrator has an account already, which is nobody else's", "remove the name"
            elif user in team.users[:number]:
                yield key, "the team has this user already", "name everybody once"


@rule
def somebody_may_run_jobs(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Where there are teams, Slurm runs the jobs of their users and nobody else's."""
    if platform.orchestrator.is_kubernetes or not platform.teams:
        return
    if not any(team.users for team in platform.teams):
        reason = "under Slurm the users of teams run jobs, and the file names none"
        yield ("teams",), reason, "name login names in a team's `users`, or leave the teams out: then everybody may"


@rule
def slurm_counts_guarantees_of_one_type(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Slurm guarantees a team nodes of one type. A QOS limits the number of nodes and not their type.

    GrpTRES in https://slurm.schedmd.com/resource_limits.html (read 2026-11-21)
    """
    if platform.orchestrator.is_kubernetes:
        return
    first: str | None = None
    for index, team in enumerate(platform.teams):
        for instance_type, count in team.guarantee.items():
            if count:
                first = first or instance_type
            if count and instance_type != first:
                key: KeyPath = ("teams", index, "guarantee", instance_type)
                reason = f"Slurm counts the nodes of a team whatever their type, and others are guaranteed as {first}"
                yield key, reason, f"guarantee {first} alone; what nobody is guaranteed is borrowed"


@rule
def a_collector_has_exporters(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`slurm.observability` collects the metrics of the exporters of `slurm.exporters`."""
    slurm = platform.slurm_or_default
    if slurm.observability and not slurm.exporters:
        reason = "`exporters` is false, so no node has metrics to collect"
        yield ("slurm", "observability"), reason, "remove `exporters: false`, or remove this key"


@rule
def settings_are_nobody_elses(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Some keys of slurm.conf are HyperPod's, others follow from the platform file, and a second line would win."""
    if platform.orchestrator.is_kubernetes:
        return
    taken = dict.fromkeys(map(str.lower, HYPERPODS_SETTINGS), "HyperPod writes it")
    taken |= dict.fromkeys(map(str.lower, TEAMS_SETTINGS), "it follows from `teams`")
    taken |= dict.fromkeys(
        map(str.lower, HEALTH_SETTINGS), "it follows from `slurm.health_checks` and `slurm.job_walls`"
    )
    taken |= dict.fromkeys(map(str.lower, LOGIN_SETTINGS), "it follows from `slurm.login_needs_job`")
    taken |= dict.fromkeys(map(str.lower, PRIVATE_SETTINGS), "it follows from `slurm.private_tmp`")
    if has_team_roles_on_nodes(platform):
        taken |= dict.fromkeys(map(str.lower, ROLE_SETTINGS), "it follows from `storage.bucket.team_prefixes`")
    for name in platform.slurm_or_default.settings:
        if reason := taken.get(name.lower()):
            yield ("slurm", "settings", name), reason, "leave the key out"
        elif line := _line_of(name):
            reason = f"it is a key of the lines of {line}, and slurmctld does not start with it on a line of its own"
            fix = "leave the key out. A QOS can limit the time and the nodes of jobs: `sacctmgr modify qos`"
            yield ("slurm", "settings", name), reason, fix


def _line_of(name: str) -> str | None:
    """Return whose lines of slurm.conf have a key that is no key of the cluster, or None for every other key."""
    if name.lower() in map(str.lower, slurm_settings().keys):
        return None
    lines = {"partitions": _OF_PARTITIONS, "nodes": _OF_NODES}
    return next((whose for whose, keys in lines.items() if name.lower() in map(str.lower, keys)), None)


@published_rule
def slurm_knows_the_settings(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Each key of `slurm.settings` is one of the Slurm that HyperPod's image has, which starts with no other."""
    settings = platform.slurm_or_default.settings
    if platform.orchestrator.is_kubernetes or not settings:
        return
    known = {name.lower(): name for name in slurm_settings().keys}
    for name in settings:
        if name.lower() in known or _line_of(name):
            continue
        near = [known[each] for each in difflib.get_close_matches(name.lower(), list(known), n=3)]
        fix = f"did you mean {' or '.join(near)}?" if near else "leave the key out"
        yield ("slurm", "settings", name), f"Slurm {slurm_settings().release} has no such key in slurm.conf", fix


@rule
def slurm_reads_the_values_of_the_settings(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Numbers of slurm.conf have no unit, and a range of ports begins with the lower one."""
    numbers = {name.lower() for name in slurm_settings().numbers}
    for name, value in platform.slurm_or_default.settings.items():
        key: KeyPath = ("slurm", "settings", name)
        if name.lower() in numbers and not re.fullmatch(r"\d+|unlimited|infinite", str(value).lower()):
            reason = "slurmctld takes a number without a unit, and does not start with another value"
            yield key, reason, "write it as in 60"
        ports = re.fullmatch(r"(\d+)-(\d+)", str(value)) if name.lower() == "srunportrange" else None
        if ports and not int(ports[1]) < int(ports[2]) <= 65535:
            reason = "it is no range of ports, which begins with the lower one"
            yield key, reason, "write it as in 60001-63000"


@rule
def no_partition_sets_defaults(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No node group is called `default`: a partition has the name of its group, and Slurm's DEFAULT is none.

    https://slurm.schedmd.com/slurm.conf.html, PartitionName (read 2026-11-25)
    """
    for index, group in enumerate(platform.node_groups):
        if group.name == DEFAULT_PARTITION and not platform.orchestrator.is_kubernetes:
            reason = "the partition of a group has its name, and in slurm.conf DEFAULT sets values of all partitions"
            yield ("node_groups", index, "name"), reason, "give the group another name"


@rule
def secrets_can_be_read(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A secret is in the platform's Region, where the cluster looks for it."""
    slurm = platform.slurm_or_default
    secrets: dict[KeyPath, str] = {}
    if slurm.accounting_database:
        secrets["slurm", "accounting_database", "secret"] = slurm.accounting_database.secret
    if slurm.directory and slurm.directory.reader:
        secrets["slurm", "directory", "reader", "secret"] = slurm.directory.reader.secret
    for key, secret in secrets.items():
        region = secret.split(":")[3]
        if region == platform.region:
            continue
        reason = f"the secret is in {region}, and the cluster is in {platform.region}"
        yield key, reason, f"name a secret of {platform.region}; a secret can be replicated there"
