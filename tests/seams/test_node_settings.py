"""The settings of a Slurm node for its kernel, logins, mounts and containers, each read by what reads it there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.lifecycle_scripts.nodes import DOWNLOADED, Node
from tests.seams.seam import Planted, Seam
from tests.seams.slurm_node import GROUPS, provisioned
from tests.seams.test_node_files import NODES, Error, Read, planted

SYSCTL = "/etc/sysctl.d/90-trainway.conf"
MANAGER = "/etc/systemd/system.conf.d/90-trainway.conf"
LIMITS = "/etc/security/limits.d/90-trainway.conf"
PAM = "/etc/pam.d/sshd"
HOMES = "/etc/pam.d/common-session"
KNOWN_HOSTS = "/etc/ssh/trainway/known_hosts"
SSH = "/etc/ssh/ssh_config.d/00-trainway.conf"
NSSWITCH = "/etc/nsswitch.conf"
FSTAB = "/etc/fstab"
PORT = "/opt/trainway/exporters/node.port"
ENROOT = "/etc/enroot/enroot.conf.d/90-trainway.conf"
TMPFILES = "/etc/tmpfiles.d/trainway-containers.conf"
PROFILE = "/etc/profile.d/trainway-ssh-key.sh"
# A platform's user who may use sudo, and one who may not and has no job.
ADMINISTRATOR, USER = "ada", "grace"
# What enroot 4.1.2 reads from its configuration and what may be said there of directories.
# https://github.com/NVIDIA/enroot/blob/v4.1.2/enroot.in (read 2026-11-22)
DIRECTORIES_OF_ENROOT = {
    "ENROOT_CACHE_PATH",
    "ENROOT_CONFIG_PATH",
    "ENROOT_DATA_PATH",
    "ENROOT_LIBRARY_PATH",
    "ENROOT_RUNTIME_PATH",
    "ENROOT_SYSCONF_PATH",
    "ENROOT_TEMP_PATH",
}
# A node of the tests may not change its kernel's settings or raise its limits. Debian has no /etc/default/locale.
NOT_THE_FILES = re.compile(
    r"Read-only file system|Permission denied|Could not set limit for|/etc/default/locale|deprecated reading of user"
)

# What PAM logs of logins that end as they are to.
REFUSED_OR_LET_IN = re.compile(
    r"session (opened|closed) for|may_sudo.sh failed: exit code 1$|you have no active jobs|by PAM account configuration"
)


def kernel(node: Node) -> list[str]:
    """Return what systemd-sysctl complains about."""
    said = node.run("/lib/systemd/systemd-sysctl", SYSCTL, check=False, SYSTEMD_LOG_LEVEL="debug").stderr.splitlines()
    assert any(line.startswith("Setting ") for line in said)
    usual = ("Parsing ", "Setting ")
    return [line for line in said if not line.startswith(usual) and not NOT_THE_FILES.search(line)]


def manager(node: Node) -> list[str]:
    """Return the settings that systemd does not have after it has read its configuration again."""
    node.run("systemctl", "daemon-reexec")
    wanted = [line for line in (node.root / MANAGER.lstrip("/")).read_text().splitlines() if "=" in line]
    names = ",".join(line.partition("=")[0] for line in wanted)
    has = node.run("systemctl", "show", f"--property={names}").stdout.splitlines()
    return [f"systemd does not have {line}" for line in wanted if line not in has]


def journal_of(node: Node, *command: str) -> tuple[int, list[str]]:
    """Return the status of a command, and what PAM and its modules logged while it ran."""
    cursor = node.run("journalctl", "--quiet", "--lines=0", "--show-cursor").stdout.partition("cursor: ")[2].strip()
    status = node.run(*command, check=False).returncode
    node.run("journalctl", "--sync")
    lines = node.run("journalctl", "--quiet", "--output=cat", f"--after-cursor={cursor}").stdout.splitlines()
    return status, [line for line in lines if re.search(r"\bPAM\b|pam_", line) and not NOT_THE_FILES.search(line)]


def limits(node: Node) -> list[str]:
    """Return what pam_limits complains about when a session begins."""
    status, said = journal_of(node, "runuser", "--user", ADMINISTRATOR, "--", "true")
    assert status == 0
    return [line for line in said if "pam_limits" in line]


def logins(node: Node) -> list[str]:
    """Return who gets in and should not, who does not and should, and what PAM complains about."""
    found = []
    may = {ADMINISTRATOR: True, USER: node.name not in GROUPS["train"]}
    ssh = ("ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", node.hostname, "true")
    for user, gets_in in may.items():
        status, said = journal_of(node, "runuser", "--user", user, "--", *ssh)
        if (status == 0) is not gets_in:
            found.append(f"{user} {'does not get in' if gets_in else 'gets in'}")
        found += [line for line in said if not REFUSED_OR_LET_IN.search(line)]
    return found


def ssh_client(node: Node) -> list[str]:
    """Return what ssh says of its settings, and whether it takes the known hosts from the platform's file."""
    done = node.run("ssh", "-G", "a-node", check=False)
    if done.returncode:
        return (done.stdout + done.stderr).splitlines()
    told = [line for line in done.stdout.splitlines() if line.startswith("globalknownhostsfile ")]
    return [] if KNOWN_HOSTS in " ".join(told).split() else [f"ssh does not read {KNOWN_HOSTS}"]


def name_service(node: Node) -> list[str]:
    """Return the databases for which glibc does not load SSSD's module."""
    found = []
    for database in ("passwd", "group"):
        said = node.run("getent", database, "nobody-has-this-name", check=False, LD_DEBUG="files").stderr
        if "libnss_sss.so.2" not in said:
            found.append(f"{database} does not come from SSSD")
    return found


def mounts(node: Node) -> list[str]:
    """Return what findmnt has against fstab, and systemd against the unit that it makes of the entry."""
    checked = node.run("findmnt", "--verify", "--tab-file", FSTAB, check=False)
    found = checked.stdout.splitlines() if checked.returncode else []
    generator = "/lib/systemd/system-generators/systemd-fstab-generator"
    script = (
        f"rm -rf /run/seam && mkdir /run/seam && cd /run/seam && SYSTEMD_FSTAB={FSTAB} {generator} . . . && cat *.mount"
    )
    made = node.run("bash", "-c", script, check=False)
    wanted = ("Where=/fsx", "Type=lustre", "Options=noatime,flock,_netdev,x-systemd.requires=network-online.target")
    return found + [f"the mount lacks {line}" for line in wanted if line not in made.stdout.splitlines()]


def exporter(node: Node) -> list[str]:
    """Return what is wrong with the variables that systemd gives an exporter."""
    file = f"--property=EnvironmentFile={PORT}"
    done = node.run("systemd-run", "--wait", "--pipe", "--quiet", file, "printenv", "PORT", check=False)
    return [] if done.stdout.strip().isdecimal() else [f"the exporter's port is {done.stdout.strip()!r}"]


def profiles(node: Node) -> list[str]:
    """Return what shellcheck says of the scripts that every login shell reads."""
    files = sorted((node.root / "etc/profile.d").glob("*trainway*"))
    assert files
    shellcheck = Path(sys.executable).with_name("shellcheck")
    command = [str(each) for each in (shellcheck, "--shell=sh", "--severity=warning", "--format=gcc", *files)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def with_enroot(node: Node) -> None:
    """Write the settings of containers, if they are not there yet. Only enroot's version is asked for."""
    if not (node.root / ENROOT.lstrip("/")).exists():
        node.write("/usr/local/bin/enroot", "#!/bin/sh\necho 4.1.2\n", 0o755)
        node.run("bash", f"{DOWNLOADED}/containers/enroot.sh", ORCHESTRATOR="hyperpod-slurm")


def temporary_files(node: Node) -> list[str]:
    """Return what systemd-tmpfiles says of the directories that containers need at each start."""
    with_enroot(node)
    done = node.run("systemd-tmpfiles", "--create", TMPFILES, check=False)
    return done.stderr.splitlines()


def enroot(node: Node) -> list[str]:
    """Return what enroot would ignore or refuse, and paths of a user that are none."""
    with_enroot(node)
    done = node.run("bash", "-n", ENROOT, check=False)
    found = done.stderr.splitlines()
    for line in (node.root / ENROOT.lstrip("/")).read_text().splitlines():
        name, value = re.split(r"[ \t=]+", line, maxsplit=1)
        if name not in DIRECTORIES_OF_ENROOT:
            found.append(f"enroot has no directory {name}")
        # As enroot does, in the user's shell.
        asked = ("runuser", "--user", USER, "--", "bash", "-uc", f"eval echo {shlex.quote(value)}")
        said = node.run(*asked, check=False)
        found += said.stderr.splitlines()
        path = said.stdout.strip()
        if not re.fullmatch(r"(/[A-Za-z0-9._-]+)+", path):
            found.append(f"{name} is {path!r}")
    return found


def of_containers(read: Read, error: str, file: str, old: str, new: str) -> Planted:
    """An error in a file that only nodes with enroot have."""
    inner = planted(read, error, "n1", file, old, new)

    def broken(directory: Path) -> Sequence[str]:
        with_enroot(provisioned()["n1"])
        return inner.broken(directory)

    return Planted(error, sound=inner.sound, broken=broken)


KERNEL_ERRORS: tuple[Error, ...] = (
    ("a setting does not exist", "n1", SYSCTL, "somaxconn", "somaxcon"),
    ("a line is no assignment", "n1", SYSCTL, "-net.core.somaxconn =", "net.core.somaxconn"),
)
MANAGER_ERRORS: tuple[Error, ...] = (
    ("a setting is misspelled", "n1", MANAGER, "DefaultLimitMEMLOCK", "DefaultLimitMEMLOCKED"),
    ("a value is none", "n1", MANAGER, "=infinity", "=unlimited"),
)
LIMIT_ERRORS: tuple[Error, ...] = (
    ("the item does not exist", "n1", LIMITS, "soft memlock", "soft memlocked"),
    ("the value is none", "n1", LIMITS, "unlimited", "infinitely"),
    ("a line lacks a word", "n1", LIMITS, "* soft memlock", "* memlock"),
)
LOGIN_ERRORS: tuple[Error, ...] = (
    ("a module does not exist", "n1", PAM, "pam_slurm_adopt.so", "pam_slurm_adopts.so"),
    ("a control is misspelled", "n1", PAM, "account sufficient", "account sufficent"),
    ("a kind of module does not exist", "n1", PAM, "account required pam_slurm", "accounts required pam_slurm"),
    ("a value of pam_slurm_adopt is none", "n1", PAM, "adopt_failure=deny", "adopt_failure=denied"),
    ("the script for who may use sudo is absent", "n1", PAM, "may_sudo.sh", "may_do.sh"),
    ("an included file is absent", "n1", PAM, "@include trainway-session", "@include trainway-sessions"),
    ("the accounts' rules are no stack of their own", "n1", PAM, "account substack", "@include"),
    ("the module that makes homes does not exist", "ctl", HOMES, "pam_mkhomedir.so", "pam_makehomedir.so"),
    ("the authority of the hosts is another", "ctl", KNOWN_HOSTS, "@cert-authority *", "@cert-authority *.org"),
)
SSH_ERRORS: tuple[Error, ...] = (
    ("an option is misspelled", "n1", SSH, "GlobalKnownHostsFile", "GlobalKnownHostFile"),
    ("the file of known hosts is another", "n1", SSH, "/etc/ssh/trainway/known_hosts", "/etc/ssh/known_hosts"),
)
NAME_ERRORS: tuple[Error, ...] = (("the module of SSSD is misspelled", "n1", NSSWITCH, "files sss", "files sssd"),)
MOUNT_ERRORS: tuple[Error, ...] = (
    ("an entry has no type", "n1", FSTAB, " lustre ", " "),
    ("the mount point is no path", "n1", FSTAB, " /fsx ", " fsx "),
    ("the entry is one word", "n1", FSTAB, " /fsx lustre ", "/fsx,lustre,"),
)
EXPORTER_ERRORS: tuple[Error, ...] = (
    ("the variable is misspelled", "n1", PORT, "PORT=", "PORTS="),
    ("the assignment has a colon", "n1", PORT, "PORT=", "PORT: "),
)
PROFILE_ERRORS: tuple[Error, ...] = (
    ("a condition has no end", "n1", PROFILE, "esac", ""),
    ("a word is of bash alone", "n1", PROFILE, "[ -e", "[[ -e"),
)
TMPFILES_ERRORS = (
    ("a mode is none", TMPFILES, "1777", "1877"),
    ("the kind of entry does not exist", TMPFILES, "d /run/enroot", "directory /run/enroot"),
    ("the owner does not exist", TMPFILES, "root root", "roots root"),
)
ENROOT_ERRORS = (
    ("a key is misspelled", ENROOT, "ENROOT_DATA_PATH", "ENROOT_DATA_DIR"),
    ("a command has no end", ENROOT, "$(id -u)", "$(id -u"),
    ("a path is not absolute", ENROOT, "/run/enroot", "run/enroot"),
    ("a command does not exist", ENROOT, "$(id -u)", "$(uid)/x"),
)
SEAMS = (
    Seam(
        artifact="settings of a Slurm node's kernel",
        rendered_by="lifecycle_scripts/steps/10-limits.sh",
        reader="systemd-sysctl 252 on a node that the scripts provisioned",
        planted=tuple(planted(kernel, *error) for error in KERNEL_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="defaults of systemd's units",
        rendered_by="lifecycle_scripts/steps/10-limits.sh",
        reader="systemd 252 (`systemctl daemon-reexec`) on a node that the scripts provisioned",
        planted=tuple(planted(manager, *error) for error in MANAGER_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="limits of logins",
        rendered_by="lifecycle_scripts/steps/10-limits.sh",
        reader="pam_limits of PAM 1.5, in a session on a node that the scripts provisioned",
        planted=tuple(planted(limits, *error) for error in LIMIT_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="PAM's rules of logins, and the known hosts",
        rendered_by="lifecycle_scripts/steps/32-login.sh",
        reader="ssh to a provisioned node as a user who may use sudo, and as one without a job; the log of PAM",
        planted=tuple(planted(logins, *error) for error in LOGIN_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="settings of the ssh client",
        rendered_by="lifecycle_scripts/steps/28-ssh.sh",
        reader="`ssh -G` of OpenSSH 9.2 on a node that the scripts provisioned",
        planted=tuple(planted(ssh_client, *error) for error in SSH_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="name service switch",
        rendered_by="lifecycle_scripts/steps/26-directory.sh",
        reader="glibc, which loads SSSD's module for accounts and groups",
        planted=tuple(planted(name_service, *error) for error in NAME_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="fstab",
        rendered_by="lifecycle_scripts/mounts.sh",
        reader="`findmnt --verify`, and systemd's generator of mount units",
        planted=tuple(planted(mounts, *error) for error in MOUNT_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="environment files of the exporters",
        rendered_by="lifecycle_scripts/steps/50-exporters.sh",
        reader="systemd-run with the file as EnvironmentFile",
        planted=tuple(planted(exporter, *error) for error in EXPORTER_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="profiles of login shells",
        rendered_by="lifecycle_scripts/steps/60-motd.sh",
        reader="shellcheck, for any POSIX shell",
        instead="A shell reports only what it runs into. tests/lifecycle_scripts logs in and reads the message.",
        planted=tuple(planted(profiles, *error) for error in PROFILE_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="directories of containers in memory",
        rendered_by="lifecycle_scripts/containers/enroot.sh",
        reader="systemd-tmpfiles 252 on a node that the scripts provisioned",
        planted=tuple(of_containers(temporary_files, *error) for error in TMPFILES_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="enroot's settings",
        rendered_by="lifecycle_scripts/containers/enroot.sh",
        reader="bash, as enroot 4.1.2 asks it, for a user, with the names of the directories that enroot reads",
        instead="No registry that the tests reach has enroot. It skips a key that it does not know.",
        planted=tuple(of_containers(enroot, *error) for error in ENROOT_ERRORS),
        exhaustive=True,
    ),
)
EVERYWHERE: list[Read] = [
    kernel, manager, limits, logins, ssh_client, name_service, mounts, exporter, profiles, temporary_files, enroot
]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("read", EVERYWHERE, ids=lambda read: read.__name__)
def test_the_settings_of_a_provisioned_node_are_read(name: str, read: Read) -> None:
    assert read(provisioned()[name]) == []
