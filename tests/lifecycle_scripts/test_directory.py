"""Users of an LDAP directory on real nodes: a real slapd, which SSSD asks over TLS."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lifecycle_scripts.directory import unreachable
from tests.lifecycle_scripts.authorities import authority, signed
from tests.lifecycle_scripts.nodes import DOWNLOADED, Lab, Node, at_once, missing, nodes
from tests.lifecycle_scripts.steps import run_step
from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_users import slurm_directory

WHY_NOT = missing()
pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""), pytest.mark.exhaustive]

HOST = "ip-10-81-0-10"
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:ldap-AbCdEf"
READER = "cn=reader,dc=example,dc=com"
PASSWORD = 'read"er $ecret'

SLAPD = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile /run/slapd.pid
TLSCertificateFile /etc/ldap/server.pem
TLSCertificateKeyFile /etc/ldap/server.key
require authc
database mdb
suffix "dc=example,dc=com"
directory /var/lib/directory
access to attrs=userPassword by anonymous auth by * none
access to * by users read by * none
"""
ENTRIES = f"""
dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: {READER}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: {PASSWORD}

dn: uid=ada,dc=example,dc=com
objectClass: account
objectClass: posixAccount
objectClass: ldapPublicKey
uid: ada
cn: Ada
uidNumber: 5001
gidNumber: 5100
homeDirectory: /home/elsewhere
sshPublicKey: {{key}}

dn: uid=linus,dc=example,dc=com
objectClass: account
objectClass: posixAccount
uid: linus
cn: Linus
uidNumber: 5003
gidNumber: 5100
homeDirectory: /home/elsewhere

dn: uid=root,dc=example,dc=com
objectClass: account
objectClass: posixAccount
uid: root
cn: Not root
uidNumber: 5002
gidNumber: 5100
homeDirectory: /home/elsewhere

dn: cn=vision,dc=example,dc=com
objectClass: posixGroup
cn: vision
gidNumber: 5100
memberUid: ada
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The authority of the organization."""
    return authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("key") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    return file


def directory(**changes: object) -> dict[str, str]:
    """What nodes are told of it."""
    keys = {"name": "atlas", "region": "us-west-2", "zones": ["usw2-az1"], "orchestrator": "hyperpod-slurm"}
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 2}
    reader = {"name": READER, "secret": SECRET}
    asked = {"uri": f"ldaps://{HOST}", "base": "dc=example,dc=com", "kind": "rfc2307", "reader": reader, **changes}
    platform = Platform.model_validate({**keys, "node_groups": [group], "slurm": {"directory": asked}})
    found = slurm_directory(platform)
    assert found
    return found.model_dump(mode="json")


def serve(node: Node, root: Path, key: Path) -> None:
    """Starts the directory there."""
    certificate = signed(root, HOST)
    node.write("/etc/ldap/server.pem", certificate.read_text())
    node.write("/etc/ldap/server.key", certificate.with_suffix(".key").read_text(), 0o600)
    node.write("/etc/ldap/directory.conf", SLAPD)
    node.write("/root/entries.ldif", ENTRIES.format(key=key.with_suffix(".pub").read_text().strip()))
    node.run("mkdir", "-p", "/var/lib/directory")
    node.run("slapadd", "-f", "/etc/ldap/directory.conf", "-l", "/root/entries.ldif")
    slapd = ["slapd", "-f", "/etc/ldap/directory.conf", "-h", "ldaps:/// ldap:///", "-d", "0"]
    node.run("systemd-run", "--unit=directory", *slapd)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, root: Path, key: Path) -> Iterator[Lab]:
    """The directory on one node, and its users on the others."""
    groups = {"controller": ["ctl"], "train": ["n1", "n2"]}
    with nodes(tmp_path_factory.mktemp("directory"), groups, parameters={"directory": directory()}) as running:
        serve(running["ctl"], root, key)
        (running.s3 / "secrets").mkdir()
        (running.s3 / "secrets/ldap-AbCdEf").write_text(f"{PASSWORD}\n")
        for node in running.nodes.values():
            node.write(f"{DOWNLOADED}/yours/certificates/ours.pem", root.read_text())
        for step in ("12-certificates", "20-lustre", "26-directory", "28-ssh"):
            everywhere(running, step)
        yield running


def everywhere(lab: Lab, step: str) -> None:
    """Runs the step on the nodes that have users of the directory, at once."""
    for done in at_once(lambda name: run_step(lab[name], step), ("n1", "n2")).values():
        assert done.returncode == 0, done.stdout
        assert PASSWORD not in done.stdout
        assert "WARNING" not in done.stdout


def test_users_of_the_directory_are_the_same_on_every_node(lab: Lab) -> None:
    for name in ("n1", "n2"):
        assert lab[name].run("id", "ada").stdout == "uid=5001(ada) gid=5100(vision) groups=5100(vision)\n"
        assert lab[name].run("getent", "passwd", "ada").stdout.split(":")[5:] == ["/fsx/users/ada", "/bin/bash\n"]
        # The image's are who they were.
        assert lab[name].run("id", "-u", "root").stdout == "0\n"
        assert lab[name].run("getent", "passwd", "5002", check=False).stdout == ""


def test_a_first_login_makes_the_home_of_all_nodes_and_goes_on_to_the_next(lab: Lab, key: Path) -> None:
    checks = ["-oBatchMode=yes", "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR"]
    ssh = ["ssh", "-F", "none", "-i", str(key), *checks, f"ada@{lab['n1'].address}"]
    there = "bash -lc 'ssh -oBatchMode=yes -oStrictHostKeyChecking=yes ip-10-81-0-12 hostname'"
    done = subprocess.run(lab["n1"].lab.within(*ssh, there), capture_output=True, text=True, timeout=300)
    assert done.stdout == f"{lab['n2'].hostname}\n", done.stderr
    home = lab.shared / "users/ada"
    assert (home.stat().st_mode & 0o777, home.stat().st_uid) == (0o700, 5001)
    assert (home / ".ssh/id_ed25519").exists()


def test_who_is_first_there_by_sudo_has_a_home_as_well(lab: Lab) -> None:
    """As `trainway launch --user` comes, through Session Manager."""
    assert lab["n2"].run("sudo", "--login", "--user=linus", "pwd").stdout == "/fsx/users/linus\n"
    assert (lab.shared / "users/linus").stat().st_uid == 5003


def test_the_password_is_roots_alone_and_in_no_log(lab: Lab) -> None:
    node = lab["n1"]
    assert node.run("stat", "-c", "%a %U", "/etc/sssd/sssd.conf").stdout == "600 root\n"
    places = ["/etc", "/opt/trainway", "/opt/ml", "/var", "/run"]
    found = node.run("grep", "-rlF", PASSWORD, *places, check=False).stdout.splitlines()
    assert found == ["/etc/sssd/sssd.conf", "/var/lib/sss/db/config.ldb"]
    # SSSD's own copy.
    assert node.run("stat", "-c", "%a %U", found[1]).stdout == "600 root\n"
    assert PASSWORD not in node.run("journalctl", "--no-pager").stdout


def test_a_second_run_changes_nothing(lab: Lab) -> None:
    before = lab["n1"].snapshot(times=True)
    done = run_step(lab["n1"], "26-directory")
    assert done.stdout == f"the users of ldaps://{HOST} are there\n"
    after = lab["n1"].snapshot(times=True)
    # SSSD's own databases continue to change.
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {name for name in changed if not name.startswith("/var/lib/sss/")} == set()


def test_a_node_whose_directory_is_away_goes_on_and_finds_it_later(lab: Lab) -> None:
    lab["ctl"].run("systemctl", "stop", "directory")
    lab["n2"].run("sh", "-c", "systemctl stop sssd; rm -f /var/lib/sss/db/* /var/lib/sss/mc/*")
    done = run_step(lab["n2"], "26-directory", DIRECTORY_WAIT_SECONDS="1")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == (
        f"WARNING: the users of ldaps://{HOST} are not there yet: {HOST} does not answer at port 636: "
        "[Errno 111] Connection refused; its security group has to let the nodes in"
    )
    assert lab["n2"].run("id", "ada", check=False).returncode != 0
    certificates = ["/etc/ldap/directory.conf", "-h", "ldaps:/// ldap:///", "-d", "0"]
    lab["ctl"].run("systemd-run", "--unit=directory", "slapd", "-f", *certificates)
    # What SSSD does after a while, or when the network changes.
    lab["n2"].run("pkill", "-USR2", "-x", "sssd")
    end = time.monotonic() + 300
    while lab["n2"].run("id", "ada", check=False).returncode and time.monotonic() < end:
        time.sleep(0.5)
    assert lab["n2"].run("id", "-u", "ada").stdout == "5001\n"


@pytest.mark.parametrize(
    ("password", "says"),
    [
        (None, "the directory's password cannot be read within 0 s"),
        ("", "the directory's password is empty, has several lines or spaces around it"),
        ("two\nlines", "the directory's password is empty, has several lines or spaces around it"),
    ],
)
def test_a_password_that_is_none_ends_the_step(lab: Lab, password: str | None, says: str) -> None:
    file = lab.s3 / "secrets/ldap-AbCdEf"
    if password is None:
        file.unlink()
    else:
        file.write_text(password)
    try:
        done = run_step(lab["n1"], "26-directory", DIRECTORY_WAIT_SECONDS="0")
        assert done.returncode == 1
        assert says in done.stdout.splitlines()[-1]
        assert "two" not in done.stdout
    finally:
        file.write_text(f"{PASSWORD}\n")


def test_an_image_without_sssd_gets_it_from_the_scripts_or_says_so(lab: Lab) -> None:
    """The package is of the node's own program: what is installed runs."""
    node = lab["ctl"]
    node.run("mv", "/usr/sbin/sssd", "/root/sssd")
    done = run_step(node, "26-directory")
    assert done.returncode == 1
    assert "SSSD is not on this node's image" in done.stdout
    package = "/root/package"
    node.run("mkdir", "-p", f"{package}/DEBIAN", f"{package}/usr/sbin")
    node.run("cp", "/root/sssd", f"{package}/usr/sbin/sssd")
    control = "Package: trainway-test-sssd\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: SSSD\n"
    node.write(f"{package}/DEBIAN/control", control)
    node.run("dpkg-deb", "--build", package, f"{DOWNLOADED}/yours/directory/sssd.deb")
    done = run_step(node, "26-directory")
    assert done.returncode == 1
    assert "cannot be installed: dpkg: error processing archive" in done.stdout
    node.write(f"{package}/DEBIAN/control", control + "Replaces: sssd-common\n", 0o644)
    node.run("dpkg-deb", "--build", package, f"{DOWNLOADED}/yours/directory/sssd.deb")
    for step in ("12-certificates", "26-directory"):
        done = run_step(node, step)
        assert done.returncode == 0, done.stdout
    assert "installed 1 packages" in done.stdout
    assert node.run("id", "-u", "ada").stdout == "5001\n"


def test_a_directory_that_somebody_elses_authority_signed_is_not_trusted(lab: Lab, tmp_path: Path) -> None:
    node = lab["n1"]
    node.write("/root/other.pem", authority(tmp_path, "Other Root").read_text())
    done = node.run("python3", f"{DOWNLOADED}/directory.py", f"ldaps://{HOST}", "/root/other.pem", "0", check=False)
    assert done.returncode == 1
    assert done.stdout == (
        "its certificate is not to be trusted: unable to get local issuer certificate; "
        "put that of its authority into lifecycle_scripts/yours/certificates\n"
    )


def test_a_name_that_nobody_knows_is_told() -> None:
    assert unreachable("ldaps://nowhere.invalid", "/dev/null") == (
        "there is no nowhere.invalid to be found; the network's DNS has to know it"
    )
