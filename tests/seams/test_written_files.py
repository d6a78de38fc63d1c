"""Every file that the lifecycle scripts write on a node, and every file of the delivery, has something that reads it.

A file that the table does not have fails the test: name the seam whose reader reads it, or write one.
"""

from __future__ import annotations

import fnmatch
import re
import subprocess

import pytest

from tests.seams.seam import all_seams
from tests.seams.slurm_node import GROUPS, provisioned
from tests.synthesis import ROOT

UNITS = "systemd units, timers and drop-ins of Slurm nodes"
SLURM = "slurm.conf, gres.conf, topology.conf, cgroup.conf and plugstack.conf"
LOGINS = "PAM's rules of logins, and the known hosts"
# The seam of each file that the scripts write in a format of another program.
SEAM_OF = {
    "/etc/docker/daemon.json": "Docker's daemon.json",
    "/etc/enroot/enroot.conf.d/*": "enroot's settings",
    "/etc/fstab": "fstab",
    "/etc/nsswitch.conf": "name service switch",
    "/etc/pam.d/*": LOGINS,
    "/etc/profile.d/*": "profiles of login shells",
    "/etc/security/limits.d/*": "limits of logins",
    "/etc/ssh/ssh_config.d/*": "settings of the ssh client",
    "/etc/ssh/sshd_config.d/*": "sshd's settings",
    "/etc/ssh/trainway/known_hosts": LOGINS,
    "/etc/sssd/sssd.conf": "SSSD's settings",
    "/etc/sudoers.d/*": "sudoers",
    "/etc/sysctl.d/*": "settings of a Slurm node's kernel",
    "/etc/systemd/system.conf.d/*": "defaults of systemd's units",
    "/etc/systemd/system/*": UNITS,
    "/etc/tmpfiles.d/*": "directories of containers in memory",
    "/opt/slurm/etc/*.conf": SLURM,
    "/opt/trainway/exporters/*.port": "environment files of the exporters",
    "/usr/share/pam-configs/*": LOGINS,
}
# What no other program's format is: the project's own programs, which tests/lifecycle_scripts runs, and their state;
# what the programs of Debian write; keys; and what the tests put on a node.
NO_FORMAT = {
    "/opt/trainway/*": "the project's own programs and their state",
    "/opt/slurm/etc/trainway-*.sh": "the project's own programs",
    "/usr/local/bin/trainway-venv": "the project's own programs",
    "/var/lib/trainway/*": "the project's own state",
    "/etc/group*": "groupadd",
    "/etc/gshadow*": "groupadd",
    "/etc/passwd*": "useradd",
    "/etc/shadow*": "useradd",
    "/etc/subgid*": "useradd",
    "/etc/subuid*": "useradd",
    "/etc/rc?.d/*": "systemctl enable",
    "/var/lib/pam/*": "pam-auth-update",
    "/var/lib/sss/*": "SSSD",
    "/var/lib/dbus/*": "the tests",
    "/etc/munge/munge.key": "a key, which munge has as slurmd is up",
    "/etc/ssh/ssh_host_*": "a key, and what ssh-keygen signs",
    "/etc/hostname": "the tests",
    "/etc/hosts": "the tests",
    "/etc/machine-id": "the tests",
    "/etc/resolv.conf": "the tests",
    "/opt/seam/*": "the tests",
    "/usr/local/bin/aws": "the tests",
    "/usr/local/bin/enroot": "the tests",
    "/usr/local/bin/lfs": "the tests",
    "/usr/sbin/mount.*": "the tests",
}
# The seam of each file of the delivery that is not Python.
DELIVERY = {
    "delivery/*.sh": "Delivery scripts: shell",
    "delivery/mirror.yaml": "Charts as rendered",
    "delivery/values/kueue.yaml": "Kueue's configuration",
    "delivery/values/*.yaml": "Chart values",
}
# Read by delivery/node_packages.py and delivery/mirror_list.py, which tests/delivery runs.
OWN_FORMAT = {"delivery/mirror.lock.yaml", "delivery/node_packages.yaml"}


def seam_of(path: str) -> str | None:
    """Return the seam, or what else answers for a file of a node; None if the table has nothing."""
    tables = (SEAM_OF, NO_FORMAT)
    return next((why for table in tables for form, why in table.items() if fnmatch.fnmatch(path, form)), None)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for names in GROUPS.values() for name in names])
def test_every_file_that_a_node_has_more_than_its_image_is_read(name: str) -> None:
    # A file or a link to a unit, and no directory, device, or socket.
    written = [path for path, what in provisioned()[name].snapshot().items() if re.match(r"[-l]", what)]
    lacking = [path for path in written if path.startswith("/") and seam_of(path) is None]
    assert lacking == [], "give each a seam whose reader reads it, and add it to SEAM_OF"


def test_every_file_of_the_delivery_is_read() -> None:
    listed = subprocess.run(["git", "ls-files", "delivery"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [file for file in listed.stdout.split() if not file.endswith(".py") and file not in OWN_FORMAT]
    assert files
    assert [file for file in files if not any(fnmatch.fnmatch(file, form) for form in DELIVERY)] == []


def test_the_tables_name_seams() -> None:
    artifacts = {seam.artifact for seams in all_seams().values() for seam in seams}
    assert {*SEAM_OF.values(), *DELIVERY.values()} <= artifacts


def test_a_file_that_nobody_knows_is_found() -> None:
    assert seam_of("/etc/logrotate.d/trainway") is None
    assert seam_of("/etc/sysctl.d/90-trainway.conf") == "settings of a Slurm node's kernel"
