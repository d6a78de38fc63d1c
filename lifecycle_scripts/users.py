"""Apply a document to this node's accounts: `users.py DOCUMENT`.

It prints each change, and nothing without changes. An account has the document's owner as its comment, and no other
account is ever changed. A user who is no longer in the document is locked out, and keeps every file. It runs regularly,
as root on every node, and on several nodes at once, which share the directories that it creates.

The exit status is 0, 3 if some users were refused and all others exist, and 1 if nothing could be done. It uses
useradd(8) and usermod(8) of Debian's passwd package, as on Ubuntu.
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
# The last document whose directories all exist. A thousand nodes that check them again would load the file servers.
DIRECTORIES_MADE = Path("/var/lib/trainway/users-directories")
# Creates the key with which a user connects from node to node. steps/28-ssh.sh installs it.
SSH_KEY = Path("/opt/trainway/ssh_key.sh")
COMMAND_SECONDS = 60
SOME_REFUSED = 3

NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
# pam_umask(8) reads it from the comment, and Ubuntu's sessions use it. Users share files through a group.
UMASK = "umask=0027"
# A day in 1970. An expired account refuses SSH keys and su. A locked password refuses neither.
EXPIRED = "1970-01-02"


class UsersError(Exception):
    """The document has another version or form, or a file cannot be read. The message says which."""


class Account(NamedTuple):
    """A user's account on the node."""

    uid: int
    home: str
    owned: bool
    # Supplementary groups.
    groups: frozenset[str]
    # As in /etc/shadow, the second in days. None if it has no line for the account.
    password: str | None
    expires: str | None


class LocalAccounts(NamedTuple):
    """The node's accounts and groups, by name."""

    accounts: dict[str, Account]
    groups: dict[str, int]


class Plan(NamedTuple):
    """Commands to run, the resulting users, and a line for each user who is refused."""

    commands: list[Command]
    users: list[JsonObject]
    refused: list[str]


def read_document(path: Path) -> JsonObject:
    """Return the document. Raises `UsersError`."""
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
    """Return an account's comment. Its first field, which only root can change, is the owner."""
    return f"{document['owner']},,,,{UMASK}"


def read_node(document: JsonObject) -> LocalAccounts:
    """Return the node's accounts and groups. Of a directory service, only those that the document also names."""
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
    """Return the commands that apply the document to the node, in an order in which each can succeed."""
    made = Plan([], [], [])
    if any(account.owned and account.expires is None for account in node.accounts.values()):
        # useradd was interrupted between its two files.
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
    """Plan the groups that users share. Return those that can be used."""
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
    """Return why a user is invalid on any node, or None."""
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
        # No password logs in. The password is not locked, because without PAM that would also refuse keys.
        add += ["--no-create-home", "--shell", "/bin/bash", "--password", "*"]
        return [*commands, [*add, *(["--groups", ",".join(groups)] if groups else []), name]]
    if had.groups != set(groups):
        commands.append(["usermod", "--groups", ",".join(groups), name])
    if had.expires:
        commands.append(["usermod", "--expiredate", "", name])
    if had.password in (None, "x"):
        # pwconv sets it for users whom useradd did not complete.
        commands.append(["usermod", "--password", "*", name])
    if had.home != home:
        commands.append(["usermod", "--home", home, name])
    return commands


def run(command: Command) -> str | None:
    """Run the command. Return its error message if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = " ".join((done.stderr + done.stdout).split())
    return f"{' '.join(command)}: {said or f'status {done.returncode}'}" if done.returncode else None


def write(path: Path, text: str, mode: int) -> bool:
    """Write the text to the file atomically. Return whether that changed it."""
    with suppress(FileNotFoundError):
        if path.read_text() == text and path.stat().st_mode & 0o7777 == mode:
            return False
    # sudo ignores names with a dot, and sshd reads only those of users.
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
    new.replace(path)
    return True


def write_keys(users: list[JsonObject]) -> list[str]:
    """Write the users' keys for logins, on this node's own disk. Return the changes.

    Users' own authorized_keys are separate: several nodes never edit a user's file at once, and a key that leaves the
    document is removed.
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
    """Create a user's directory below `parent`. Return whether it was missing. Raises `OSError` with the reason.

    It gets its name only when it is complete. If several nodes create it at once, the first one's stays.
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
    """Create the users' directories on the shared file systems. Return the changes, and the problems."""
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
    """Have the user create a key. Return the problem, or None. Root never writes in a user's directory."""
    environment = {"HOME": str(home), "USER": user["name"], "PATH": "/usr/bin:/bin"}
    return run(
        ["setpriv", f"--reuid={user['uid']}", f"--regid={user['uid']}", "--clear-groups", "env", "-i"]
        + [f"{name}={value}" for name, value in environment.items()]
        + ["bash", str(SSH_KEY)]
    )


def apply(document: JsonObject) -> tuple[list[str], list[str]]:
    """Apply the document. Return the changes, and a line for each user or item that failed. Raises `UsersError`."""
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
    # This order applies if both are one stream.
    for change in made:
        print(change, flush=True)
    for line in wrong:
        print(line, file=sys.stderr)
    return SOME_REFUSED if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
