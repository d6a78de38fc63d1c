"""Apply a document to the roles of teams on this node: `follow.py DOCUMENT DIRECTORY [FILE_SYSTEM]`, as root.

DOCUMENT has the accounts of the teams. DIRECTORY gets `teams.json`, with the role and the users of each team, and
`first-teams`, with the first team of each user. If a team has a role, only root reaches the metadata service, and with
it the role of the node. Otherwise this program removes the files and the wall. Each team has a group with its users. On
FILE_SYSTEM, this program gives the directories of teams to their groups. It prints each change, and nothing without
changes.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-limiting-access.html (read 2026-11-26)
https://manpages.debian.org/bookworm/nftables/nft.8.en.html (read 2026-11-24)
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS = 20
# The file with the groups of teams that this program has made.
GROUPS = "groups"
# Modes of directories that FSx makes for objects, and of those that earlier versions let everybody write to.
OPEN = (0o755, 0o1777)
# Everything for root and the group, nothing for others. New files and directories belong to the group.
TEAM_ONLY = 0o2770
TABLE = "trainway_metadata"
ADDRESSES = {"ip": "169.254.169.254", "ip6": "fd00:ec2::254"}
# Packets of a container with its own network namespace are forwarded, and have no user.
WALL = f"""\
table inet {TABLE} {{}}
delete table inet {TABLE}
table inet {TABLE} {{
  chain to_metadata {{
    meta skuid 0 accept
    reject
  }}
  chain output {{
    type filter hook output priority filter; policy accept;
    {"    ".join(f"{kind} daddr {address} jump to_metadata{chr(10)}" for kind, address in ADDRESSES.items())}\
  }}
  chain forward {{
    type filter hook forward priority filter; policy accept;
    {"    ".join(f"{kind} daddr {address} reject{chr(10)}" for kind, address in ADDRESSES.items())}\
  }}
}}
"""
NO_WALL = f"table inet {TABLE} {{}}\ndelete table inet {TABLE}\n"


def main() -> int:
    document, directory, *file_system = map(Path, sys.argv[1:])
    try:
        accounts = json.loads(document.read_text())["accounts"]
        with_role = [each for each in accounts if "role" in each]
        make_groups(with_role, directory / GROUPS)
        if file_system:
            for each in with_role:
                open_directories(file_system[0], each["directories"], each["group"]["name"])
        files = contents(with_role)
        # The wall comes first, and goes last.
        if with_role:
            nft(WALL)
        for name, text in files.items():
            if write(directory / name, text):
                print(f"[team-roles] {'wrote' if text else 'removed'} {directory / name}")
        if not with_role:
            nft(NO_WALL)
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as problem:
        said = getattr(problem, "stderr", None) or problem
        print(f"[team-roles] the roles of teams cannot be applied: {str(said).strip()}", file=sys.stderr)
        return 1
    return 0


def contents(accounts: list[dict[str, Any]]) -> dict[str, str]:
    """Return the files of the directory by their names. An empty file is removed."""
    teams = {each["name"]: {"role": each["role"], "users": each["users"]} for each in accounts}
    first: dict[str, str] = {}
    for each in accounts:
        for user in each["users"]:
            first.setdefault(user, each["name"])
    return {
        "teams.json": f"{json.dumps(teams)}\n" if teams else "",
        "first-teams": "".join(f"{user} {team}\n" for user, team in first.items()),
        "wall.nft": WALL if teams else NO_WALL,
        GROUPS: "".join(f"{each['group']['name']}\n" for each in accounts),
    }


def make_groups(accounts: list[dict[str, Any]], ours: Path) -> None:
    """Create the group of each team, add its users that have an account on this node, and empty groups of former teams.

    `ours` is the file with the groups that this program has made before. A group with another number is left alone.
    """
    users: dict[str, list[str]] = {name: [] for name in (ours.read_text().split() if ours.exists() else ())}
    for each in accounts:
        name, gid = each["group"]["name"], each["group"]["gid"]
        if name not in _groups():
            shadow("groupadd", "--gid", str(gid), name)
        if _groups()[name].gr_gid == gid:
            users[name] = each["users"]
        else:
            print(f"[team-roles] the group {name} has the number {_groups()[name].gr_gid}, not {gid}", file=sys.stderr)
            users.pop(name, None)
    for name, theirs in users.items():
        members = sorted(user for user in theirs if _has_account(user))
        if name in _groups() and members != sorted(_groups()[name].gr_mem):
            shadow("gpasswd", "--members", ",".join(members), name)
            print(f"[team-roles] the group {name} has {', '.join(members) or 'nobody'}")


def _groups() -> dict[str, grp.struct_group]:
    return {each.gr_name: each for each in grp.getgrall()}


def _has_account(user: str) -> bool:
    try:
        return bool(pwd.getpwnam(user))
    except KeyError:
        return False


def shadow(*command: str) -> None:
    """Run a program of Debian's passwd package. Raises CalledProcessError."""
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True, timeout=SECONDS, check=True)


def write(path: Path, text: str) -> bool:
    """Write a file at once, or remove it if the text is empty. Return whether it changed."""
    if not text:
        had = path.exists()
        path.unlink(missing_ok=True)
        return had
    if path.exists() and path.read_text() == text:
        return False
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.chmod(0o644)
    new.replace(path)
    return True


def open_directories(file_system: Path, names: list[str], group: str) -> None:
    """Create the directories of a team, which only its group enters. New files in them belong to the group.

    FSx creates the directory of an object for root alone. What is above the directories, everybody enters and only root
    changes. A directory of a user stays unchanged, and what is below it is the user's, and so does one with a mode that
    an administrator has chosen. Root squash may keep this node from all that.
    """
    for name in names:
        path, parts = file_system, Path(name).parts
        for number, part in enumerate(parts, 1):
            path /= part
            try:
                path.mkdir(mode=0o755, exist_ok=True)
                found = path.lstat()
                if found.st_uid != 0 or not stat.S_ISDIR(found.st_mode):
                    break
                if stat.S_IMODE(found.st_mode) not in OPEN:
                    continue
                if number < len(parts):
                    path.chmod(0o755)
                else:
                    # The mode comes last: chown(2) clears the bit by which new files belong to the group.
                    os.chown(path, 0, grp.getgrnam(group).gr_gid, follow_symlinks=False)
                    path.chmod(TEAM_ONLY)
            except (OSError, KeyError) as error:
                print(f"[team-roles] {path} is not the group's: {error}", file=sys.stderr)
                break


def nft(rules: str) -> None:
    """Give the rules to the kernel at once. Raises CalledProcessError."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    command, there = ["nft", "--file", "-"], {**os.environ, "PATH": path}
    subprocess.run(command, input=rules, stdout=-1, stderr=-1, text=True, timeout=SECONDS, check=True, env=there)


if __name__ == "__main__":
    sys.exit(main())
