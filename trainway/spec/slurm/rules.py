"""Rules about Slurm: accounting, users, and containers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from itertools import chain

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.slurm_settings import slurm_settings
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, instance_types, published_rule, rule
from trainway.spec.slurm.node_packages import ARCHITECTURE
from trainway.spec.slurm.slurm_accounts import BORROWED, ROLE_SETTINGS
from trainway.spec.slurm.slurm_accounts import SETTINGS as TEAMS_SETTINGS
from trainway.spec.teams.team_data import has_team_roles_on_nodes
from trainway.spec.teams.team_groups import team_groups

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


# What Debian and Ubuntu begin with (passwd.master and group.master of base-passwd 3.6.1), and what services add that
# the nodes' image has or may have. A node refuses whatever else it finds there.
_USERS = """
root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc _apt nobody
messagebus sshd sssd munge slurm slurmdbd mysql ubuntu ec2-user ssm-user ec2-instance-connect
"""
_GROUPS = """
adm tty disk kmem dialout fax voice cdrom floppy tape sudo audio dip src shadow utmp video sasl plugdev staff users
nogroup operator wheel admin docker input render kvm lxd sgx crontab ssh_keys _ssh netdev
"""
USERS_OF_THE_IMAGE, GROUPS_OF_THE_IMAGE = frozenset(_USERS.split()), frozenset(_GROUPS.split())


@rule
def users_and_groups_are_told_apart(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Names and numbers are those of one user or group; a user's own group has the user's name and number.

    A team has a group, too, if it has directories of its own.
    """
    slurm, of_teams = platform.slurm_or_default, team_groups(platform)
    names: dict[str, str] = {}
    numbers: dict[int, str] = {}
    users: list[tuple[KeyPath, str, str, int]]
    users = [(("slurm", "users", index), user.name, "uid", user.uid) for index, user in enumerate(slurm.users)]
    groups = [(("slurm", "groups", index), group.name, "gid", group.gid) for index, group in enumerate(slurm.groups)]
    keys = {team.name: ("teams", index) for index, team in enumerate(platform.teams)}
    teams = [(keys[team], group.name, "gid", group.gid) for team, group in of_teams.items()]
    for key, name, kind, number in chain(users, groups, teams):
        if name in USERS_OF_THE_IMAGE | GROUPS_OF_THE_IMAGE or name.startswith("systemd-"):
            yield (*key, "name"), "the nodes' image has a user or a group of this name", "choose another name"
        if name in names:
            yield (*key, "name"), f"{names[name]} has this name already", "give everybody a name of their own"
        if number in numbers:
            reason = f"{numbers[number]} has this number already, whose files would be theirs as well"
            yield (*key, kind), reason, "choose a number that nobody has, and never had"
        where = f"{key[-2]}[{key[-1]}]"
        names.setdefault(name, where)
        numbers.setdefault(number, where)


@rule
def users_are_in_groups_that_there_are(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A group has one number on all nodes, so the file says which."""
    slurm = platform.slurm_or_default
    known = {group.name for group in slurm.groups}
    for index, user in enumerate(slurm.users):
        for number, group in enumerate(user.groups):
            key: KeyPath = ("slurm", "users", index, "groups", number)
            if group not in known:
                yield key, "slurm.groups has no such group", "add it there with its gid, or remove it here"
            elif group in user.groups[:number]:
                yield key, "the user is in this group already", "name every group once"


@rule
def team_users_have_accounts(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Where the file lists all users, those of the teams are among them, or are the image's."""
    slurm = platform.slurm_or_default
    if not slurm.users or slurm.directory:
        return
    known = {user.name for user in slurm.users} | USERS_OF_THE_IMAGE
    for index, team in enumerate(platform.teams):
        for number, user in enumerate(team.users):
            if user not in known:
                key: KeyPath = ("teams", index, "users", number)
                yield key, "slurm.users lists the users, and this one is not among them", "add it there with its uid"


@rule
def home_directories_can_be_made(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Root of a node makes them, which a squashed root cannot."""
    lustre = platform.storage.lustre
    squash = lustre.root_squash if lustre else None
    if platform.slurm_or_default.users and not platform.storage.home and squash and squash.uid and not squash.but_not:
        reason = "home directories are on the Lustre file system, where root_squash keeps the nodes from making any"
        yield (
            ("slurm", "users"),
            reason,
            "add `storage: {home: {}}`, or the head nodes' addresses to root_squash.but_not",
        )


@rule
def containers_are_for_the_nodes_processors(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Every node installs the packages of `slurm.containers: true`, and they are for one kind of processor."""
    if not platform.slurm_or_default.containers:
        return
    for key, name in instance_types(platform):
        if name in catalogue and catalogue[name].architecture != ARCHITECTURE:
            ours = f"the packages of slurm.containers are for {ARCHITECTURE}"
            reason = f"its processors are {catalogue[name].architecture}, and {ours}"
            yield key, reason, "leave slurm.containers out, and give the group an image_id that has enroot and pyxis"
