"""Makes this node's accounts equal to a document: `users.py DOCUMENT`.

Prints each change that it makes, and nothing when there is none to make. An account carries the document's owner as its
comment; no other is ever changed. Who is not in the document any more is locked out, and keeps every file. Runs as root
on every node, again and again, and on several at once, which share the directories that it makes.

Exits with 0, with 3 when somebody was refused and all the others are there, and with 1 when nothing could be done.
useradd(8) and usermod(8) of Debian's passwd, as Ubuntu has them.
"""

import fcntl
import grp
import hashlib
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

JsonObject = dict[str, Any]
Command = list[str]

KEYS = Path("/etc/ssh/trainway/authorized_keys")
SUDOERS = Path("/etc/sudoers.d/90-trainway")
SKELETON = Path("/etc/skel")
LOCK = Path("/run/trainway-users.lock")
# The document whose directories are all there: a thousand nodes that look for them again are felt by the servers.
DIRECTORIES_MADE = Path("/var/lib/trainway/users-directories")
# Makes the key with which a user goes from node to node; steps/28-ssh.sh puts it there.
SSH_KEY = Path("/opt/trainway/ssh_key.sh")
COMMAND_SECONDS = 60
SOME_REFUSED = 3

NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
# pam_umask(8) reads it from the comment, which Ubuntu's sessions ask. Who shares files is in a group that has them.
UMASK = "umask=0027"
# A day in 1970. Neither an SSH key nor su gets past an account that has expired; a locked password stops neither.
EXPIRED = "1970-01-02"


class UsersError(Exception):
    """A document of another version or shape, or a file that cannot be read; the text says which."""


class Account(NamedTuple):
    """What the node has of somebody."""

    uid: int
    home: str
    owned: bool
    # Supplementary ones.
    groups: frozenset[str]
    # As /etc/shadow has them, the second in days; None where it has no line for the account.
    password: str | None
    expires: str | None


class LocalAccounts(NamedTuple):
    """The node's accounts and groups, by name."""

    accounts: dict[str, Account]
    groups: dict[str, int]


class Plan(NamedTuple):
    """What is to be run, who is to be there, and a line for each who is refused."""

    commands: list[Command]
    users: list[JsonObject]
    refused: list[str]


def read_document(path: Path) -> JsonObject:
    """Returns the document; raises `UsersError`."""
    try:
        document: JsonObject = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsersError(f"the users' document cannot be read: {error}") from error
    version = document.get("version") if isinstance(document, dict) else None
    if version != 1:
        raise UsersError(f"the users' document has version {version!r}, this program knows version 1")
    missing = {"owner", "homes", "directories", "mounts", "groups", "users"} - document.keys()
    if missing:
        raise UsersError(f"the users' document lacks {', '.join(sorted(missing))}")
    groups = document["groups"]
    if not isinstance(document["users"], list) or not isinstance(groups, list):
        raise UsersError("the users' document: users and groups are lists")
    if not all(isinstance(group, dict) and {"name", "gid"} <= group.keys() for group in groups):
        raise UsersError("the users' document: a group has a name and a gid")
    return document


def comment(document: JsonObject) -> str:
    """Returns an account's comment: its first field, which only root changes, is the owner."""
    return f"{document['owner']},,,,{UMASK}"


def read_node(document: JsonObject) -> LocalAccounts:
    """Returns what the node has, of a directory service only whom the document names as well."""
    groups = {group.gr_name: group.gr_gid for group in grp.getgrall()}
    entries = {entry.pw_name: entry for entry in pwd.getpwall()}
    for user in document["users"]:
        for find, key in ((pwd.getpwnam, user.get("name")), (pwd.getpwuid, user.get("uid"))):
            with suppress(KeyError, TypeError, ValueError, OverflowError):
                found = find(key)
                entries.setdefault(found.pw_name, found)
    member_of: dict[str, set[str]] = {}
    for group in grp.getgrall():
        for member in group.gr_mem:
            member_of.setdefault(member, set()).add(group.gr_name)
    shadow = {line.split(":")[0]: line.split(":") for line in Path("/etc/shadow").read_text().splitlines()}
    accounts = {
        name: Account(
            entry.pw_uid,
            entry.pw_dir,
            entry.pw_gecos.split(",")[0] == document["owner"],
            frozenset(member_of.get(name, ())),
            shadow[name][1] if name in shadow else None,
            shadow[name][7] if name in shadow else None,
        )
        for name, entry in entries.items()
    }
    return LocalAccounts(accounts, groups)


def plan(document: JsonObject, node: LocalAccounts) -> Plan:
    """Returns what makes the node equal to the document, in an order in which each can be done."""
    made = Plan([], [], [])
    if any(account.owned and account.expires is None for account in node.accounts.values()):
        # useradd was ended between its two files.
        made.commands.append(["pwconv"])
    group_names = _plan_groups(document, node, made)
    for user in document["users"]:
        why = _malformed(user) or _taken(user, node, made.users, group_names)
        if why:
            made.refused.append(f"{_called(user)} is refused: {why}")
            continue
        made.users.append(user)
        made.commands.extend(_account_commands(user, document, node, group_names))
    staying = {user.get("name") for user in document["users"] if isinstance(user, dict)}
    for name, account in sorted(node.accounts.items()):
        if account.owned and name not in staying and (account.groups or account.expires != "1"):
            made.commands.append(["usermod", "--expiredate", EXPIRED, "--groups", "", name])
    return made


def _plan_groups(document: JsonObject, node: LocalAccounts, made: Plan) -> set[str]:
    """Plans the groups that users share; returns those that can be used."""
    numbers = {gid: name for name, gid in node.groups.items()}
    usable: set[str] = set()
    for group in document["groups"]:
        name, gid = group["name"], group["gid"]
        if node.groups.get(name) == gid:
            usable.add(name)
        elif name in node.groups or gid in numbers or name in usable:
            has = (
                f"{name} with gid {node.groups[name]}"
                if name in node.groups
                else f"gid {gid} as {numbers.get(gid, name)}"
            )
            made.refused.append(f"group {name} is refused: this node has {has}; choose another name and number")
        else:
            usable.add(name)
            numbers[gid] = name
            made.commands.append(["groupadd", "--gid", str(gid), name])
    return usable


def _called(user: Any) -> str:
    return f"user {user.get('name')!r}" if isinstance(user, dict) else f"entry {user!r}"


def _malformed(user: Any) -> str | None:
    """Why a user cannot be made whatever the node has; None if there is no reason."""
    if not isinstance(user, dict) or not {"name", "uid", "groups", "keys", "sudo"} <= user.keys():
        return "the entry does not have name, uid, groups, keys and sudo"
    if not isinstance(user["name"], str) or not NAME.fullmatch(user["name"]):
        return "it is not a login name"
    if not isinstance(user["uid"], int) or user["uid"] < 1000:
        return f"uid {user['uid']!r} is not one of a person"
    for what in ("groups", "keys"):
        if not isinstance(user[what], list) or not all(
            isinstance(each, str) and "\n" not in each for each in user[what]
        ):
            return f"its {what} are not a list of single lines"
    return None


def _taken(user: JsonObject, node: LocalAccounts, before: Iterable[JsonObject], shared: set[str]) -> str | None:
    """Return why the name or the user ID of a user is already in use, or None if both are free."""
    name, uid, had = user["name"], user["uid"], node.accounts.get(user["name"])
    for other in before:
        if name == other["name"] or uid == other["uid"]:
            what = "name" if name == other["name"] else f"uid {uid}"
            return f"user {other['name']!r} before it in the document has the {what} already; give it one of its own"
    if had and not had.owned:
        return f"this node's image has an account of that name (uid {had.uid}); choose another name"
    if had and had.uid != uid:
        return f"it has uid {had.uid} here and {uid} in the document, and its files have the first; keep that"
    for account, its in node.accounts.items():
        if its.uid == uid and account != name:
            return f"this node has uid {uid} as {account!r}; choose another uid"
    if name in shared or node.groups.get(name, uid) != uid:
        return f"this node has a group of that name with gid {node.groups.get(name, 'of its own')}; choose another name"
    for group, gid in node.groups.items():
        if gid == uid and group != name:
            return f"this node has gid {uid} as group {group!r}, and a user's own group has the user's number"
    return None


def _account_commands(user: JsonObject, document: JsonObject, node: LocalAccounts, usable: set[str]) -> list[Command]:
    name, had = user["name"], node.accounts.get(user["name"])
    home = f"{document['homes']}/{name}"
    groups = sorted(set(user["groups"]) & usable)
    commands: list[Command] = []
    if name not in node.groups:
        commands.append(["groupadd", "--gid", str(user["uid"]), name])
    if had is None:
        add = ["useradd", "--uid", str(user["uid"]), "--gid", name, "--comment", comment(document), "--home-dir", home]
        # No password logs in, and none is locked, which without PAM would keep keys out as well.
        add += ["--no-create-home", "--shell", "/bin/bash", "--password", "*"]
        return [*commands, [*add, *(["--groups", ",".join(groups)] if groups else []), name]]
    if had.groups != set(groups):
        commands.append(["usermod", "--groups", ",".join(groups), name])
    if had.expires:
        commands.append(["usermod", "--expiredate", "", name])
    if had.password in (None, "x"):
        # What pwconv gives those whom useradd did not come to.
        commands.append(["usermod", "--password", "*", name])
    if had.home != home:
        commands.append(["usermod", "--home", home, name])
    return commands


def run(command: Command) -> str | None:
    """Runs the command; returns what it complains about if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = " ".join((done.stderr + done.stdout).split())
    return f"{' '.join(command)}: {said or f'status {done.returncode}'}" if done.returncode else None


def write(path: Path, text: str, mode: int) -> bool:
    """Makes the file hold the text, at once; returns whether that changed it."""
    with suppress(FileNotFoundError):
        if path.read_text() == text and path.stat().st_mode & 0o7777 == mode:
            return False
    # sudo passes over names with a dot, and sshd asks for those of users.
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
    new.replace(path)
    return True


def write_keys(users: list[JsonObject]) -> list[str]:
    """Makes the keys that log in those of the users, on this node's own disk; returns the changes.

    Beside what users write in their own authorized_keys: nobody's file is edited by several nodes at once, and a key
    that is taken out of the document is out.
    """
    KEYS.mkdir(parents=True, exist_ok=True)
    changed = []
    users = [user for user in users if user["keys"]]
    for user in users:
        if write(KEYS / user["name"], "".join(f"{key}\n" for key in user["keys"]), 0o644):
            changed.append(f"{len(user['keys'])} keys of {user['name']}")
    for path in KEYS.iterdir():
        if path.name not in {user["name"] for user in users}:
            path.unlink()
            changed.append(f"no keys of {path.name} any more")
    return changed


def write_sudoers(users: list[JsonObject]) -> list[str]:
    """Write the sudoers file for users with sudo rights, and return the changes.

    Users give no password, because the accounts have none.
    """
    lines = [f"{user['name']} ALL=(ALL:ALL) NOPASSWD: ALL\n" for user in users if user["sudo"]]
    if not lines and not SUDOERS.exists():
        return []
    return [f"sudo for {len(lines)} users"] if write(SUDOERS, "".join(lines), 0o440) else []


def make_directory(parent: Path, user: JsonObject, skeleton: Path | None) -> bool:
    """Makes a user's directory below `parent`; returns whether it was not there. Raises `OSError` with the reason.

    It appears under its name only when it is complete: of several nodes that make it at once, the first one's stays.
    """
    path, uid = parent / user["name"], user["uid"]
    if os.path.lexists(path):
        there = path.lstat()
        if not path.is_dir() or path.is_symlink() or there.st_uid != uid:
            raise OSError(f"{path} is there and belongs to uid {there.st_uid}, not {uid}: `chown -R` or remove it")
        return False
    parent.mkdir(mode=0o755, exist_ok=True)
    if parent.stat().st_uid != 0:
        raise OSError(
            f"{parent} belongs to uid {parent.stat().st_uid}, who could take directories away: chown it to root"
        )
    new = parent / f".{user['name']}.{socket.gethostname()}"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    if skeleton and skeleton.is_dir():
        shutil.copytree(skeleton, new, symlinks=True, dirs_exist_ok=True)
    for directory, _, files in os.walk(new):
        for each in (Path(directory), *(Path(directory) / file for file in files)):
            os.chown(each, uid, uid, follow_symlinks=False)
    new.chmod(0o700)
    try:
        new.rename(path)
    except OSError:
        shutil.rmtree(new)
        return make_directory(parent, user, skeleton)
    return True


def make_directories(document: JsonObject, users: list[JsonObject]) -> tuple[list[str], list[str]]:
    """Makes the users' directories on the shared file systems; returns the changes, and what was in the way."""
    content = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    if DIRECTORIES_MADE.exists() and DIRECTORIES_MADE.read_text() == content:
        return [], []
    absent = [mount for mount in document["mounts"] if not os.path.ismount(mount)]
    if users and absent:
        return [], [f"{absent[0]} is not mounted, so that nobody's directory is made there; mount it"]
    homes, own = Path(document["homes"]), Path(document["directories"])
    made, wrong = [], []
    for user in users:
        try:
            if make_directory(homes, user, SKELETON):
                made.append(f"{homes / user['name']}")
                if SSH_KEY.exists() and (why := make_ssh_key(user, homes / user["name"])):
                    wrong.append(why)
            if own != homes and make_directory(own, user, None):
                made.append(f"{own / user['name']}")
        except OSError as error:
            wrong.append(f"user {user['name']!r} has no directory: {error}")
    if not wrong:
        DIRECTORIES_MADE.parent.mkdir(parents=True, exist_ok=True)
        write(DIRECTORIES_MADE, content, 0o644)
    return made, wrong


def make_ssh_key(user: JsonObject, home: Path) -> str | None:
    """Has the user make a key; returns what went wrong. Root writes nothing in a directory that is a user's."""
    environment = {"HOME": str(home), "USER": user["name"], "PATH": "/usr/bin:/bin"}
    return run(
        ["setpriv", f"--reuid={user['uid']}", f"--regid={user['uid']}", "--clear-groups", "env", "-i"]
        + [f"{name}={value}" for name, value in environment.items()]
        + ["bash", str(SSH_KEY)]
    )


def apply(document: JsonObject) -> tuple[list[str], list[str]]:
    """Returns the changes that were made, and a line for whom or what could not be; raises `UsersError`."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = plan(document, read_node(document))
        made, wrong = [], list(wanted.refused)
        for command in wanted.commands:
            if failed := run(command):
                wrong.append(failed)
            else:
                made.append(" ".join(command))
        there = {entry.pw_name for entry in pwd.getpwall()}
        users = [user for user in wanted.users if user["name"] in there]
        made += write_keys(users) + write_sudoers(users)
        directories, in_the_way = make_directories(document, users)
    return made + directories, wrong + in_the_way


def main() -> int:
    try:
        made, wrong = apply(read_document(Path(sys.argv[1])))
    except (UsersError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    # In this order where both are one stream.
    for change in made:
        print(change, flush=True)
    for line in wrong:
        print(line, file=sys.stderr)
    return SOME_REFUSED if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
