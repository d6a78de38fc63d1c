"""Apply a document to the roles of teams on this node: `follow.py DOCUMENT DIRECTORY [FILE_SYSTEM]`, as root.

DOCUMENT has the accounts of the teams. DIRECTORY gets `teams.json`, with the role and the users of each team, and
`first-teams`, with the first team of each user. If a team has a role, only root reaches the metadata service, and with
it the role of the node. Otherwise this program removes the files and the wall. On FILE_SYSTEM, it opens the directories
of teams to users. It prints each change, and nothing without changes.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-limiting-access.html (read 2026-11-26)
https://manpages.debian.org/bookworm/nftables/nft.8.en.html (read 2026-11-24)
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS = 20
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
        if file_system:
            open_directories(file_system[0], [name for each in with_role for name in each["directories"]])
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
    }


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


def open_directories(file_system: Path, names: list[str]) -> None:
    """Create directories in which every user may create files of their own.

    FSx creates the directory of an object for root alone. A directory with another owner or mode stays unchanged, and
    what is below a directory of a user is the user's. Root squash may keep this node from it.
    """
    for name in names:
        path = file_system
        for part in Path(name).parts:
            path /= part
            try:
                path.mkdir(mode=0o755, exist_ok=True)
                found = path.lstat()
                if found.st_uid != 0 or not stat.S_ISDIR(found.st_mode):
                    break
                if stat.S_IMODE(found.st_mode) == 0o755:
                    path.chmod(0o1777)
            except OSError as error:
                print(f"[team-roles] {path} is not open to users: {error.strerror}", file=sys.stderr)
                break


def nft(rules: str) -> None:
    """Give the rules to the kernel at once. Raises CalledProcessError."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    command, there = ["nft", "--file", "-"], {**os.environ, "PATH": path}
    subprocess.run(command, input=rules, stdout=-1, stderr=-1, text=True, timeout=SECONDS, check=True, env=there)


if __name__ == "__main__":
    sys.exit(main())
