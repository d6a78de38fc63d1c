"""The programs of a Slurm node read the configuration that the lifecycle scripts wrote for them, whole."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.lifecycle_scripts.nodes import Node
from tests.seams.seam import Planted, Seam
from tests.seams.slurm_node import GROUPS, provisioned

Read = Callable[[Node], list[str]]

NODES = [name for names in GROUPS.values() for name in names]
UNITS = "find /etc/systemd/system -name 'trainway-*' -type f -o -path '*trainway*.conf' -type f"
SSHD = "/etc/ssh/sshd_config.d/00-trainway.conf"
SSHD_HAS = ("permitrootlogin no", "passwordauthentication no", "authorizedkeyscommand /usr/bin/sss_ssh")
SSSD = "/etc/sssd/sssd.conf"
SUDOERS = "/etc/sudoers.d/90-trainway"


def units(node: Node) -> list[str]:
    """Return what systemd says of every unit and drop-in."""
    files = node.run("bash", "-c", UNITS).stdout.split()
    assert files
    names = {re.sub(r"\.d/[^/]+\.conf$", "", file) for file in files}
    said = node.run("systemd-analyze", "verify", *sorted(names), check=False)
    # Other units that these need are Debian's, and so are their faults.
    lines = (said.stdout + said.stderr).splitlines()
    return [line for line in lines if "trainway" in line]


def ssh_server(node: Node) -> list[str]:
    """Return what sshd says of its settings, and whether it takes those of the platform."""
    done = node.run("sshd", "-t", check=False)
    if done.returncode:
        return (done.stdout + done.stderr).splitlines()
    told = node.run("sshd", "-T").stdout.splitlines()
    return [f"sshd does not have {line}" for line in SSHD_HAS if not any(each.startswith(line) for each in told)]


def sssd(node: Node) -> list[str]:
    """Return the issues that SSSD's own validator finds."""
    done = node.run("sssctl", "config-check", check=False)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()


def sudo(node: Node) -> list[str]:
    """Return what visudo says of every file of sudoers."""
    done = node.run("visudo", "--check", "--strict", check=False)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()


def planted(read: Read, error: str, name: str, file: str, old: str, new: str) -> Planted:
    """An error in a file of a node, which is removed again."""

    def broken(_: object) -> list[str]:
        node = provisioned()[name]
        path = node.root / file.lstrip("/")
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        try:
            return read(node)
        finally:
            path.write_text(text)

    return Planted(error, sound=lambda _: read(provisioned()[name]), broken=broken)


ACCOUNTS = "/etc/systemd/system/trainway-accounts.service"
TIMER = "/etc/systemd/system/trainway-accounts.timer"
# The error, the node, the file, and what is replaced by what.
Error = tuple[str, str, str, str, str]
UNIT_ERRORS: tuple[Error, ...] = (
    ("a unit has a directive that systemd does not know", "ctl", ACCOUNTS, "TimeoutStartSec", "TimeoutStart"),
    ("a unit has a type that does not exist", "ctl", ACCOUNTS, "Type=oneshot", "Type=once"),
    ("a timer has a time that is none", "ctl", TIMER, "2min", "2minuets"),
    ("a unit starts a program that is absent", "ctl", ACCOUNTS, "/usr/bin/env", "/usr/bin/environment"),
)
SSHD_ERRORS: tuple[Error, ...] = (
    ("a setting is misspelled", "n1", SSHD, "PermitRootLogin", "PermitRootLogins"),
    ("a setting has a value outside its enum", "n1", SSHD, "PermitRootLogin no", "PermitRootLogin never"),
    ("a setting is commented out", "n1", SSHD, "PasswordAuthentication", "#PasswordAuthentication"),
)
SSSD_ERRORS: tuple[Error, ...] = (
    ("an option is misspelled", "n1", SSSD, "ldap_search_base", "ldap_search_bases"),
    ("the section of the domain has another name", "n1", SSSD, "[domain/directory]", "[domains/directory]"),
    ("the list of services is misspelled", "n1", SSSD, "services = ", "service = "),
)
SUDO_ERRORS: tuple[Error, ...] = (
    ("a rule lacks its host", "n1", SUDOERS, "ALL=", ""),
    ("a tag is misspelled", "n1", SUDOERS, "NOPASSWD", "NOPASSWORD"),
)
SEAMS = (
    Seam(
        artifact="systemd units, timers and drop-ins of Slurm nodes",
        rendered_by="lifecycle_scripts/steps",
        reader="systemd-analyze verify of systemd 252, on nodes that the scripts provisioned",
        planted=tuple(planted(units, *error) for error in UNIT_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="sshd's settings",
        rendered_by="lifecycle_scripts/steps/28-ssh.sh",
        reader="sshd 9.2 (`sshd -t`, `sshd -T`) on a node that the scripts provisioned",
        planted=tuple(planted(ssh_server, *error) for error in SSHD_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="SSSD's settings",
        rendered_by="lifecycle_scripts/steps/26-directory.sh",
        reader="`sssctl config-check` of SSSD 2.8 on a node that the scripts provisioned",
        planted=tuple(planted(sssd, *error) for error in SSSD_ERRORS),
        exhaustive=True,
    ),
    Seam(
        artifact="sudoers",
        rendered_by="lifecycle_scripts/users.py",
        reader="`visudo --check --strict` on a node that the scripts provisioned",
        planted=tuple(planted(sudo, *error) for error in SUDO_ERRORS),
        exhaustive=True,
    ),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("read", [units, ssh_server, sssd, sudo], ids=lambda read: read.__name__)
def test_every_file_of_a_provisioned_node_is_read(name: str, read: Read) -> None:
    assert read(provisioned()[name]) == []
