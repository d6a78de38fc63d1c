"""Apply a document to Slurm's accounts, QOS, and settings: `slurm_accounts.py DOCUMENT SLURM_CONF`.

It prints each change, and nothing without changes. Entries with the document's owner that are not in the document are
removed. No other entries are changed. It runs regularly, as root on the controller.
https://slurm.schedmd.com/sacctmgr.html (read 2026-11-21)
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

JsonObject = dict[str, Any]
Command = list[str]

# First line of the block that slurm_settings.py writes if there are teams.
BEGIN = "# Begin of what Trainway writes for teams:"
# Time limit of a Slurm command, in seconds.
ANSWER_SECONDS = float(os.environ.get("SLURM_ANSWER_SECONDS", "60"))


class AccountsError(Exception):
    """The document has another version, or a Slurm command failed. The message says which."""


class SlurmState(NamedTuple):
    """The state of Slurm for one cluster, by name. QOS and accounts have the form of the document."""

    qos: dict[str, JsonObject]
    accounts: dict[str, JsonObject]
    owned_qos: set[str]
    owned_accounts: set[str]
    # By user: all accounts, and the default account.
    accounts_of: dict[str, set[str]]
    default_account: dict[str, str]
    # (account, user), or (account, "") for a whole account: those that take no new jobs, and those that have jobs.
    closed: set[tuple[str, str]]
    busy: set[tuple[str, str]]
    busy_qos: set[str]


def run(*command: str) -> str:
    """Return the output of the command. Raises `AccountsError` with its error message."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise AccountsError(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise AccountsError(f"{' '.join(command)}: no answer within {ANSWER_SECONDS:.0f} s") from error
    if done.returncode:
        said = " ".join((done.stderr + done.stdout).split())
        raise AccountsError(f"{' '.join(command)}: {said or f'status {done.returncode}'}")
    return done.stdout


def show(*what: str, columns: str) -> list[list[str]]:
    """Return the rows that sacctmgr lists."""
    output = run("sacctmgr", "--noheader", "--parsable2", "show", *what, f"format={columns}")
    return [line.split("|") for line in output.splitlines()]


def words(listed: str) -> list[str]:
    """Return the sorted entries of a comma-separated list."""
    return sorted(filter(None, listed.split(",")))


def read_state(cluster: str, owner: str) -> SlurmState:
    """Return the state of Slurm. Raises `AccountsError`."""
    qos, owned_qos = {}, set()
    for name, priority, preempts, tres, flags, description in show(
        "qos", columns="Name,Priority,Preempt,GrpTRES,Flags,Description"
    ):
        limits = dict(limit.split("=", 1) for limit in words(tres))
        qos[name] = {
            "priority": int(priority or 0),
            "preempts": words(preempts),
            "nodes": int(limits["node"]) if "node" in limits else None,
            "denies": "DenyOnLimit" in flags,
        }
        if description == owner:
            owned_qos.add(name)
    owned_accounts = {
        name for name, organization in show("account", columns="Account,Organization") if organization == owner
    }
    accounts: dict[str, JsonObject] = {}
    accounts_of: dict[str, set[str]] = {}
    closed = set()
    columns = "Account,User,Partition,Share,QOS,DefaultQOS,GrpSubmitJobs"
    for account, user, partition, share, listed, default, submit in show(
        "associations", f"cluster={cluster}", columns=columns
    ):
        if submit == "0":
            closed.add((account, user))
        if not user:
            accounts[account] = {"fair_share": share, "qos": words(listed), "default_qos": default}
        elif not partition:
            accounts_of.setdefault(user, set()).add(account)
    there = "PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING"
    listed_jobs = run("squeue", "--noheader", f"--states={there}", "--format=%a|%u|%q")
    jobs = [line.split("|") for line in listed_jobs.splitlines()]
    return SlurmState(
        qos,
        accounts,
        owned_qos,
        owned_accounts & accounts.keys(),
        accounts_of,
        {row[0]: row[1] for row in show("user", columns="User,DefaultAccount")},
        closed,
        {(account, user) for account, user, _ in jobs} | {(account, "") for account, _, _ in jobs},
        {used for _, _, used in jobs},
    )


def changes(document: JsonObject, state: SlurmState, cluster: str) -> list[Command]:
    """Return the sacctmgr commands, in an order in which each can succeed. Empty without changes."""
    return [
        *_qos_changes(document, state),
        *_account_changes(document, state, cluster),
        *_user_changes(document, state, cluster),
        *_removals(document, state, cluster),
    ]


def _qos_changes(document: JsonObject, state: SlurmState) -> list[Command]:
    commands = []
    for qos in document["qos"]:
        name, had = qos["name"], state.qos.get(qos["name"])
        # Slurm refuses a job that could never run in the QOS at submission, instead of leaving it pending forever.
        wanted = {key: qos[key] for key in ("priority", "preempts", "nodes")} | {"denies": True}
        if had == wanted and name in state.owned_qos:
            continue
        if had is None:
            commands.append(["add", "qos", name])
        modify = ["modify", "qos", "where", f"name={name}", "set"]
        commands.append(
            [
                *modify,
                f"description={document['owner']}",
                f"priority={qos['priority']}",
                f"grptres=node={-1 if qos['nodes'] is None else qos['nodes']}",
                "flags=DenyOnLimit",
            ]
        )
        # Set the entries one by one: after a list was set to an empty one, sacctmgr reads it as a QOS that preempts
        # itself (22.05).
        preempts = set(had["preempts"] if had else ())
        commands += [[*modify, f"preempt+={other}"] for other in sorted(set(qos["preempts"]) - preempts)]
        commands += [[*modify, f"preempt-={other}"] for other in sorted(preempts - set(qos["preempts"]))]
    return commands


def _account_changes(document: JsonObject, state: SlurmState, cluster: str) -> list[Command]:
    commands = []
    for account in document["accounts"]:
        name, had = account["name"], state.accounts.get(account["name"])
        where = ["where", f"name={name}", f"cluster={cluster}"]
        wanted = {
            "fair_share": str(account["fair_share"]),
            "qos": sorted(account["qos"]),
            "default_qos": account["qos"][0],
        }
        if had is None:
            commands.append(["add", "account", name, f"cluster={cluster}", f"organization={document['owner']}"])
        elif name not in state.owned_accounts:
            commands.append(["modify", "account", "where", f"name={name}", "set", f"organization={document['owner']}"])
        if had != wanted:
            settings = [f"fairshare={account['fair_share']}", f"qos={','.join(account['qos'])}"]
            commands.append(["modify", "account", *where, "set", *settings, f"defaultqos={account['qos'][0]}"])
        if (name, "") in state.closed:
            commands.append(["modify", "account", *where, "set", "grpsubmitjobs=-1"])
    return commands


def _user_changes(document: JsonObject, state: SlurmState, cluster: str) -> list[Command]:
    """Return the commands for new users, and for those whose first account has changed."""
    commands: list[Command] = []
    first: dict[str, str] = {}
    for account in document["accounts"]:
        name = account["name"]
        for user in account["users"]:
            first.setdefault(user, name)
            if name not in state.accounts_of.get(user, ()):
                commands.append(["add", "user", user, f"account={name}", f"cluster={cluster}"])
            elif (name, user) in state.closed:
                where = ["where", f"name={user}", f"account={name}", f"cluster={cluster}"]
                commands.append(["modify", "user", *where, "set", "grpsubmitjobs=-1"])
    for user, account in first.items():
        # A new user's default is the account of the first command that adds one.
        if state.accounts_of.get(user) and state.default_account.get(user) != account:
            where = ["where", f"name={user}", f"cluster={cluster}"]
            commands.append(["modify", "user", *where, "set", f"defaultaccount={account}"])
    return commands


def _removals(document: JsonObject, state: SlurmState, cluster: str) -> list[Command]:
    """Return the commands for removals. Slurm keeps an account that has jobs, which then takes no new ones."""
    wanted = {account["name"]: set(account["users"]) for account in document["accounts"]}
    commands = []
    for user, has in sorted(state.accounts_of.items()):
        leaves = {account for account in has & state.owned_accounts if user not in wanted.get(account, ())}
        if state.default_account.get(user) in leaves and has - leaves and not any(map(wanted.get, has - leaves)):
            # An account of another owner stays, and Slurm does not remove a default account while there are others.
            where = ["where", f"name={user}", f"cluster={cluster}"]
            commands.append(["modify", "user", *where, "set", f"defaultaccount={min(has - leaves)}"])
        for account in sorted(leaves):
            where = ["where", f"name={user}", f"account={account}", f"cluster={cluster}"]
            commands += _remove("user", where, (account, user), state)
    for account in sorted(state.owned_accounts - wanted.keys()):
        commands += _remove("account", ["where", f"name={account}", f"cluster={cluster}"], (account, ""), state)
    staying = {qos["name"] for qos in document["qos"]} | state.busy_qos
    commands += [["delete", "qos", "where", f"name={name}"] for name in sorted(state.owned_qos - staying)]
    return commands


def _remove(what: str, where: Command, entry: tuple[str, str], state: SlurmState) -> list[Command]:
    if entry not in state.busy:
        return [["delete", what, *where]]
    return [] if entry in state.closed else [["modify", what, *where, "set", "grpsubmitjobs=0"]]


def change_settings(slurm_conf: Path, settings: dict[str, str]) -> list[str]:
    """Change slurm.conf, and return a line if it changed. Raises `AccountsError`, and then it is unchanged."""
    program = Path(__file__).with_name("slurm_settings.py")
    command = [sys.executable, str(program), str(slurm_conf), "teams", json.dumps(settings)]
    # The program has time limits of its own.
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise AccountsError(done.stderr.strip())
    return done.stdout.splitlines()


def apply(document: JsonObject, slurm_conf: Path) -> list[str]:
    """Apply the document, and return the changes, one per line. Raises `AccountsError`."""
    if document.get("version") != 1:
        raise AccountsError(f"the document has version {document.get('version')!r}, this program knows version 1")
    if not document["accounts"] and BEGIN not in slurm_conf.read_text():
        return []  # There never were teams, and there may be no accounting to ask.
    found = re.search(r"^ClusterName\s*=\s*(\S+)$", run("scontrol", "show", "config"), re.MULTILINE)
    if not found:
        raise AccountsError("scontrol show config: no ClusterName")
    cluster, made = found[1], []
    state = read_state(cluster, document["owner"])
    # Accounts come before the settings that enforce them, because slurmctld does not start with these if it has no
    # accounts.
    for command in changes(document, state, cluster):
        run("sacctmgr", "--immediate", "--quiet", *command)
        made.append(f"sacctmgr {' '.join(command)}")
    # The settings stay until the last job of the last team has ended, because they refuse new ones.
    waits = any((account, "") in state.busy for account in state.owned_accounts)
    if document["settings"] or not waits:
        made += change_settings(slurm_conf, document["settings"])
    return made


def main() -> int:
    document, slurm_conf = map(Path, sys.argv[1:])
    try:
        made = apply(json.loads(document.read_text()), slurm_conf)
    except (AccountsError, OSError, ValueError) as error:
        print(f"[accounts] {error}", file=sys.stderr)
        return 1
    for change in made:
        print(f"[accounts] {change}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
