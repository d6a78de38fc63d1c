"""Who can have an account on the nodes of a Slurm cluster."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from trainway.spec.derived.team_groups import team_groups
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule

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
