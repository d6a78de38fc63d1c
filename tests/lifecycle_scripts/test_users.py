"""Users of the platform file on real nodes: who comes, changes and goes, and who goes from node to node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle_scripts.nodes import Lab, Node, at_once, missing, nodes
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.lifecycle_scripts.steps import run_step
from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_users import slurm_users

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

URI = "s3://data/lifecycle_scripts/slurm-users.json"
GROUPS = [{"name": "vision", "gid": 3001}]


def user(name: str, uid: int, **keys: Any) -> dict[str, Any]:
    return {"name": name, "uid": uid, **keys}


def document(*users: dict[str, Any], **storage: Any) -> dict[str, Any]:
    """Of a platform with these users, without its rules."""
    keys = {"name": "atlas", "region": "us-west-2", "zones": ["usw2-az1"], "orchestrator": "hyperpod-slurm"}
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 2}
    slurm = {"users": list(users), "groups": GROUPS}
    return slurm_users(Platform.model_validate({**keys, "node_groups": [group], "slurm": slurm, "storage": storage}))


def deliver(lab: Lab, made: dict[str, Any] | str) -> None:
    file = lab.s3 / URI.removeprefix("s3://")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(made if isinstance(made, str) else json.dumps(made))


def follow(node: Node) -> subprocess.CompletedProcess[str]:
    """What the timer does every two minutes."""
    return node.run("bash", "/opt/trainway/users.sh", URI, "us-west-2", check=False)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of somebody who logs in from outside."""
    file = tmp_path_factory.mktemp("key") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada@laptop", "-f", str(file)], check=True)
    return file


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A controller and two nodes with the shared file system."""
    users = {"slurm_users": {"s3_uri": URI, "region": "us-west-2"}}
    with nodes(
        tmp_path_factory.mktemp("users"), {"controller": ["ctl"], "train": ["n1", "n2"]}, parameters=users
    ) as lab:
        everywhere(lab, "20-lustre", *lab.nodes)
        yield lab


@pytest.fixture(scope="module")
def team(key: Path) -> dict[str, Any]:
    public = key.with_suffix(".pub").read_text().strip()
    return document(
        user("ada", 2001, groups=["vision"], keys=[public], sudo=True), user("grace", 2002, groups=["vision"])
    )


@pytest.fixture(scope="module")
def lab(bare: Lab, team: dict[str, Any]) -> Lab:
    """With users; all nodes made them at once."""
    deliver(bare, team)
    for step in ("27-users", "28-ssh"):
        everywhere(bare, step, *bare.nodes)
    return bare


def everywhere(lab: Lab, step: str, *names: str) -> None:
    """Runs the step on all of these nodes at once."""
    for done in at_once(lambda name: run_step(lab[name], step), names).values():
        assert done.returncode == 0, done.stdout


@pytest.fixture
def settled(lab: Lab, team: dict[str, Any]) -> Iterator[Lab]:
    """The lab, which is as it was afterwards."""
    yield lab
    deliver(lab, team)
    for done in at_once(lambda name: follow(lab[name]), tuple(lab.nodes)).values():
        assert done.returncode == 0, done.stderr


def test_everybody_has_the_same_numbers_and_one_home_on_all_nodes(lab: Lab) -> None:
    for node in lab.nodes.values():
        assert node.run("id", "ada").stdout == "uid=2001(ada) gid=2001(ada) groups=2001(ada),3001(vision)\n"
        assert node.run("getent", "passwd", "grace").stdout.split(":")[5:] == ["/fsx/users/grace", "/bin/bash\n"]
        assert node.run("stat", "-c", "%a %U:%G", "/fsx/users/ada").stdout == "700 ada:ada\n"
        assert node.run("su", "-", "ada", "-c", "cat .bashrc").stdout == node.run("cat", "/etc/skel/.bashrc").stdout
    assert {path.name for path in (lab.shared / "users").iterdir()} == {"ada", "grace"}


def test_new_files_are_shared_with_the_group_that_is_ones_own(lab: Lab, key: Path) -> None:
    assert log_in(lab["n1"], key, "umask").stdout.strip() == "0027"


def log_in(node: Node, key: Path, command: str, user: str = "ada") -> subprocess.CompletedProcess[str]:
    """By ssh from this machine, with a key of the platform file."""
    checks = ["-oBatchMode=yes", "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR"]
    ssh = ["ssh", "-F", "none", "-i", str(key), *checks, f"{user}@{node.address}", command]
    return subprocess.run(node.lab.within(*ssh), capture_output=True, text=True, timeout=300)


def test_only_who_may_is_root(lab: Lab) -> None:
    assert lab["n1"].run("su", "-", "ada", "-c", "sudo -n id -u").stdout == "0\n"
    assert lab["n1"].run("su", "-", "grace", "-c", "sudo -n id -u", check=False).returncode != 0


def test_a_key_of_the_file_logs_in_and_no_password_and_no_root_does(lab: Lab, key: Path) -> None:
    assert log_in(lab["n2"], key, "id -un").stdout == "ada\n"
    assert log_in(lab["n2"], key, "id -un", user="grace").returncode != 0
    settings = lab["n2"].run("sshd", "-T").stdout.splitlines()
    assert {"permitrootlogin no", "passwordauthentication no", "kbdinteractiveauthentication no"} <= set(settings)
    lab["n2"].run("mkdir", "-p", "/root/.ssh")
    lab["n2"].write("/root/.ssh/authorized_keys", key.with_suffix(".pub").read_text(), 0o600)
    assert log_in(lab["n2"], key, "id -un", user="root").returncode != 0


@pytest.mark.parametrize("host", ["ip-10-81-0-12", "10.81.0.12"])
def test_a_user_goes_from_node_to_node_and_is_asked_nothing(lab: Lab, host: str) -> None:
    """Whoever checks host keys strictly gets there, and nothing was learnt on the way."""
    there = f"ssh -oBatchMode=yes -oStrictHostKeyChecking=yes {host} hostname"
    done = lab["n1"].run("su", "-", "ada", "-c", there)
    assert done.stdout == f"{lab['n2'].hostname}\n"
    assert not (lab.shared / "users/ada/.ssh/known_hosts").exists()


def test_a_node_that_the_authority_did_not_sign_is_not_taken_for_one(lab: Lab) -> None:
    certificate = "/etc/ssh/ssh_host_ed25519_key-cert.pub"
    node = lab["n2"]
    there = "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes ip-10-81-0-12 hostname"

    def says(words: str) -> bool:
        done = lab["n1"].run("su", "-", "ada", "-c", there, check=False)
        return words in done.stdout + done.stderr

    # On a reload, sshd executes itself anew some time later, and does not listen for a moment.
    node.run("mv", certificate, f"{certificate}.away")
    node.run("systemctl", "reload", "ssh")
    try:
        wait_for("the key alone is not enough", lambda: says("Host key verification failed"))
    finally:
        node.run("mv", f"{certificate}.away", certificate)
        node.run("systemctl", "reload", "ssh")
    wait_for("the certificate is enough", lambda: says(node.hostname))


def test_an_environment_of_ones_own_is_the_same_on_every_node(lab: Lab) -> None:
    made = lab["n1"].run("su", "-", "grace", "-c", "trainway-venv torch-2.13").stdout.splitlines()
    place = "/fsx/users/grace/venvs/torch-2.13"
    assert [line.split("  ")[0] for line in made] == [
        f"source {place}/bin/activate",
        f"trainway launch job.yaml --target slurm --environment {place}",
    ]
    python = "import sys; print(sys.prefix, sys.base_prefix)"
    done = lab["n2"].run(
        "su", "-", "grace", "-c", f"source {place}/bin/activate && python -c '{python}' && pip --version"
    )
    assert done.stdout.startswith(f"{place} /usr\n")
    config = (lab.shared / "users/grace/venvs/torch-2.13/pyvenv.cfg").read_text()
    assert "include-system-site-packages = false" in config


def test_an_environment_is_made_on_nodes_with_the_processors_of_jobs(lab: Lab) -> None:
    scontrol = lab.shared / "scontrol"
    scontrol.write_text("#!/bin/sh\necho NodeName=c1 Arch=riscv64 CoresPerSocket=1\n")
    scontrol.chmod(0o755)
    try:
        other = lab["n1"].run("su", "-", "grace", "-c", "PATH=/fsx:$PATH trainway-venv other", check=False)
    finally:
        scontrol.unlink()
    assert other.returncode == 1
    assert "compute nodes of riscv64: run `srun trainway-venv other`" in other.stderr
    assert not (lab.shared / "users/grace/venvs/other").exists()


@pytest.mark.exhaustive
def test_an_environment_that_is_there_is_kept_and_one_that_was_begun_is_finished(lab: Lab) -> None:
    venvs = lab.shared / "users/grace/venvs"
    lab["n1"].run("su", "-", "grace", "-c", "timeout --signal=KILL 0.5 trainway-venv half", check=False)
    assert not (venvs / "half/.trainway-complete").exists()
    lab["n2"].run("su", "-", "grace", "-c", "trainway-venv half")
    assert (venvs / "half/bin/pip").exists()
    (venvs / "half/kept").touch()
    lab["n1"].run("su", "-", "grace", "-c", "trainway-venv half")
    assert (venvs / "half/kept").exists()
    wrong = lab["n1"].run("su", "-", "grace", "-c", "trainway-venv ../ada", check=False)
    assert (wrong.returncode, "usage: trainway-venv [NAME]" in wrong.stderr) == (2, True)
    theirs = lab["n1"].run("su", "-", "grace", "-c", "TRAINWAY_VENVS=/fsx/users/ada trainway-venv", check=False)
    assert theirs.returncode == 1
    assert "/fsx/users/ada/default cannot be made: Permission denied" in theirs.stderr


def test_an_authority_that_somebody_else_could_have_made_is_not_taken(lab: Lab) -> None:
    node, authority = lab["n1"], "/fsx/.trainway/ssh"
    node.run("chmod", "0777", authority)
    try:
        done = run_step(node, "28-ssh")
        assert done.returncode == 1
        assert done.stdout == (
            f"{authority} is of root with mode 777, and not root's alone: find out who made it, "
            f"remove {authority}, and run this again\n"
        )
    finally:
        node.run("chmod", "0700", authority)


def test_settings_that_sshd_refuses_are_taken_back(lab: Lab) -> None:
    """They would keep it from starting again."""
    node = lab["n1"]
    node.write("/etc/ssh/sshd_config.d/50-site.conf", "NoSuchSetting yes\n")
    node.run("rm", "/var/lib/trainway/sshd-settings")
    done = run_step(node, "28-ssh")
    assert done.returncode == 1
    assert "sshd refuses its settings and keeps the old ones: /etc/ssh/sshd_config.d/50-site.conf" in done.stdout
    assert not (node.root / "etc/ssh/sshd_config.d/00-trainway.conf").exists()
    (node.root / "etc/ssh/sshd_config.d/50-site.conf").unlink()
    assert run_step(node, "28-ssh").stdout == "sshd has its new settings\n"


def test_a_node_whose_authority_or_names_changed_is_signed_again(lab: Lab) -> None:
    node, certificate = lab["n1"], "/etc/ssh/ssh_host_ed25519_key-cert.pub"
    before = node.run("cat", certificate).stdout
    node.run("ip", "address", "add", "10.81.0.99/24", "dev", "eth0")
    try:
        assert "this node's key is signed for 10.81.0.11 10.81.0.99" in run_step(node, "28-ssh").stdout
        there = "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes 10.81.0.99 hostname"

        def answers() -> bool:
            done = lab["n2"].run("su", "-", "ada", "-c", there, check=False)
            assert done.returncode == 0 or "Connection refused" in done.stderr, done.stderr
            return done.stdout == f"{node.hostname}\n"

        # On a reload, sshd executes itself anew, and does not listen for a moment.
        wait_for("sshd listens again", answers)
    finally:
        node.run("ip", "address", "del", "10.81.0.99/24", "dev", "eth0")
        run_step(node, "28-ssh")
    assert node.run("cat", certificate).stdout != before
    assert "10.81.0.99" not in node.run("ssh-keygen", "-L", "-f", certificate).stdout


def test_nodes_that_share_nothing_to_write_to_say_so(lab: Lab) -> None:
    assert run_step(lab["n1"], "28-ssh", FSX_MOUNT_PATH="").stdout == (
        "the nodes share no file system to keep their authority on, nothing to do\n"
    )


def test_a_node_whose_root_is_squashed_goes_on_without_an_authority(lab: Lab) -> None:
    """Lustre's servers refuse its root, as this `mkdir` does in their place."""
    refuses = '[[ "$*" != */.trainway* ]] || { echo "mkdir: cannot create directory: Permission denied" >&2; exit 1; }'
    lab["n1"].write("/root/bin/mkdir", f'#!/usr/bin/env bash\n{refuses}\nexec /usr/bin/mkdir "$@"\n', 0o755)
    done = run_step(lab["n1"], "28-ssh", PATH="/root/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    assert done.returncode == 0
    assert done.stdout == (
        "root may not write to /fsx, so that the first ssh to a node asks for its key; "
        "name the nodes in storage.lustre.root_squash.but_not to have it answered\n"
    )


@pytest.mark.parametrize(
    ("step", "without", "says"),
    [
        ("26-directory", {}, "there is no directory of users"),
        ("27-users", {"SLURM_USERS_S3_URI": ""}, "no users are kept here"),
        ("28-ssh", {"ORCHESTRATOR": "hyperpod-eks"}, "nobody goes from node to node on this cluster"),
    ],
)
def test_a_step_that_does_not_apply_says_so(lab: Lab, step: str, without: dict[str, str], says: str) -> None:
    done = run_step(lab["n1"], step, **without)
    assert (done.returncode, done.stdout) == (0, f"{says}, nothing to do\n")


def test_a_second_run_changes_nothing(lab: Lab) -> None:
    node = lab["n1"]
    before = node.snapshot(times=True)
    for step, says in (("27-users", "the users are there, and followed"), ("28-ssh", "asks nothing, as before")):
        done = run_step(node, step)
        assert done.returncode == 0
        (line,) = done.stdout.splitlines()
        assert says in line
    assert node.snapshot(times=True) == before
    assert node.run("systemctl", "is-active", "trainway-users.timer").stdout == "active\n"


def test_who_comes_and_goes_does_so_on_living_nodes(settled: Lab, team: dict[str, Any], key: Path) -> None:
    node = settled["n1"]
    (settled.shared / "users/grace/work").write_text("hers")
    # A key of her own, which the file knows nothing of.
    public = key.with_suffix(".pub").read_text()
    node.run("su", "-", "grace", "-c", f"echo '{public}' >>.ssh/authorized_keys")
    assert log_in(node, key, "cat work", user="grace").stdout == "hers"
    changed = document(user("ada", 2001, groups=[], keys=[]), user("linus", 2003))
    deliver(settled, changed)
    node.run("systemctl", "start", "trainway-users.service")
    assert node.run("id", "ada").stdout == "uid=2001(ada) gid=2001(ada) groups=2001(ada)\n"
    assert node.run("id", "-u", "linus").stdout == "2003\n"
    # A user whose key was removed does not log in. A user who was removed does nothing, and the files stay.
    assert log_in(node, key, "true").returncode != 0
    assert node.run("su", "-", "ada", "-c", "sudo -n true", check=False).returncode != 0
    assert log_in(node, key, "true", user="grace").returncode != 0
    assert node.run("id", "-nG", "grace").stdout == "grace\n"
    assert (settled.shared / "users/grace/work").read_text() == "hers"
    assert follow(node).stdout == ""
    # Back again, with all of it.
    deliver(settled, team)
    assert follow(node).returncode == 0
    assert log_in(node, key, "cat work", user="grace").stdout == "hers"
    assert node.run("id", "-nG", "grace").stdout == "grace vision\n"
    assert log_in(node, key, "true").returncode == 0
    node.run("su", "-", "grace", "-c", "rm .ssh/authorized_keys")


def test_accounts_that_are_not_the_platforms_are_never_changed(settled: Lab) -> None:
    node = settled["n1"]
    node.run("useradd", "--uid", "1500", "--groups", "vision", "local")
    before = node.run("grep", "-E", "^(local|ubuntu|root):", "/etc/passwd", "/etc/shadow", "/etc/group").stdout
    deliver(settled, document())
    assert follow(node).returncode == 0
    assert node.run("grep", "-E", "^(local|ubuntu|root):", "/etc/passwd", "/etc/shadow", "/etc/group").stdout == before
    assert "local" in node.run("getent", "group", "vision").stdout
    node.run("userdel", "local")


WRONG = [
    (user("ada", 2005), "user 'ada' before it in the document has the name already"),
    (user("twin", 2001), "user 'ada' before it in the document has the uid 2001 already"),
    (user("ubuntu", 2006), "this node's image has an account of that name (uid 1000); choose another name"),
    (user("vision", 2007), "this node has a group of that name"),
    ({"name": "Ada L", "uid": 2008}, "it is not a login name"),
    ({"name": "toor", "uid": 0}, "uid 0 is not one of a person"),
    ({"name": "keyless", "uid": 2009, "keys": ["a\nb"]}, "its keys are not a list of single lines"),
    ({"uid": 2009}, "the entry does not have name"),
]


def test_who_cannot_be_made_is_named_and_everybody_else_is_there(settled: Lab, team: dict[str, Any]) -> None:
    """Past the rules of the file, because the document may have been edited since."""
    node, defaults = settled["n1"], {"groups": [], "keys": [], "sudo": False}
    wrong = [{**(defaults if "name" in each else {}), **each} for each, _ in WRONG]
    barbara = document(user("barbara", 2020))["users"]
    deliver(settled, {**team, "users": [*team["users"], *wrong, *barbara]})
    done = run_step(node, "27-users")
    assert done.returncode == 0
    *lines, last = done.stdout.splitlines()
    refused = [line for line in lines if " is refused: " in line]
    assert len(refused) == len(WRONG)
    for line, (_, says) in zip(refused, WRONG, strict=True):
        assert says in line
    assert last.startswith("WARNING: all users exist except those named above")
    assert node.run("id", "-u", "barbara", "ada").stdout == "2020\n2001\n"
    assert follow(node).returncode == 3


def test_a_number_that_the_image_has_is_refused(settled: Lab, team: dict[str, Any]) -> None:
    settled["n1"].run("useradd", "--uid", "2010", "daemonic")
    deliver(settled, {**team, "users": [*team["users"], *document(user("edsger", 2010))["users"]]})
    done = follow(settled["n1"])
    assert done.returncode == 3
    assert "user 'edsger' is refused: this node has uid 2010 as 'daemonic'; choose another uid" in done.stderr
    settled["n1"].run("userdel", "daemonic")


def test_a_uid_stays_what_it_was(settled: Lab, team: dict[str, Any]) -> None:
    deliver(settled, {**team, "users": [{**team["users"][0], "uid": 2011}, team["users"][1]]})
    done = follow(settled["n1"])
    assert done.returncode == 3
    assert "it has uid 2001 here and 2011 in the document" in done.stderr
    assert settled["n1"].run("id", "-u", "ada").stdout == "2001\n"


def test_a_directory_of_somebody_elses_is_not_taken_over(settled: Lab, team: dict[str, Any]) -> None:
    settled["n1"].run("install", "-d", "-o", "2999", "/fsx/users/niklaus")
    deliver(settled, {**team, "users": [*team["users"], *document(user("niklaus", 2021))["users"]]})
    done = follow(settled["n1"])
    assert done.returncode == 3
    assert "/fsx/users/niklaus is there and belongs to uid 2999, not 2021" in done.stderr
    (settled.shared / "users/niklaus").rmdir()


def test_directories_wait_for_their_file_system_and_accounts_do_not(settled: Lab, team: dict[str, Any]) -> None:
    node = settled["n1"]
    node.run("umount", "/fsx")
    deliver(settled, {**team, "users": [*team["users"], *document(user("donald", 2022))["users"]]})
    done = follow(node)
    assert done.returncode == 3
    assert "/fsx is not mounted, so that nobody's directory is made there" in done.stderr
    assert node.run("id", "-u", "donald").stdout == "2022\n"
    assert not (node.root / "fsx/users").exists()
    node.run("mount", "-t", "lustre", "fs-1.fsx.us-west-2.amazonaws.com@tcp:/abc", "/fsx")
    assert follow(node).returncode == 0
    assert (settled.shared / "users/donald").stat().st_uid == 2022


@pytest.mark.exhaustive
def test_whenever_it_is_ended_its_next_run_goes_on(settled: Lab, team: dict[str, Any]) -> None:
    node = settled["n2"]
    many = [f"user{number:02}" for number in range(12)]
    users = document(*(user(name, 2100 + number, groups=["vision"]) for number, name in enumerate(many)))["users"]
    deliver(settled, {**team, "users": [*team["users"], *users]})
    for seconds in (0.15, 0.2, 0.25, 0.3, 0.4):
        # The whole of it: what it has started as well.
        node.run(
            "setsid",
            "timeout",
            "--signal=KILL",
            str(seconds),
            "bash",
            "/opt/trainway/users.sh",
            URI,
            "us-west-2",
            check=False,
        )
    done = follow(node)
    assert done.returncode == 0, done.stderr
    assert follow(node).stdout == ""
    for name in many:
        assert node.run("id", "-nG", name).stdout == f"{name} vision\n"
        assert f"{name}:*:" in node.run("grep", f"^{name}:", "/etc/shadow").stdout
    assert {path.name for path in (settled.shared / "users").iterdir() if path.name.startswith(".")} == set()
    assert node.run("pwck", "--read-only", "--quiet", check=False).stdout == ""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "the users' document cannot be read: Expecting property name"),
        # Each of the next four is refused by the same reader.
        pytest.param(
            "[]",
            "the users' document has version None, this program knows version 1",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param('{"version": 2}', "has version 2", marks=pytest.mark.exhaustive),
        (
            '{"version": 1, "owner": "", "homes": "", "directories": "", "mounts": [], "groups": [{}], "users": []}',
            "has a name and a gid",
        ),
        pytest.param(
            '{"version": 1, "users": []}',
            "the users' document lacks directories, groups, homes, mounts, owner",
            marks=pytest.mark.exhaustive,
        ),
        (None, "(404) when calling the HeadObject operation"),
    ],
)
def test_a_document_that_is_none_ends_the_step_in_time_and_changes_nothing(
    settled: Lab, content: str | None, says: str
) -> None:
    if content is None:
        (settled.s3 / URI.removeprefix("s3://")).unlink()
    else:
        deliver(settled, content)
    accounts = ("sha256sum", "/etc/passwd", "/etc/shadow", "/etc/group")
    before = settled["n1"].run(*accounts).stdout
    done = run_step(settled["n1"], "27-users", USERS_WAIT_SECONDS="1", USERS_RETRY_SECONDS="0.5")
    assert done.returncode == 1
    *_, why, last = done.stdout.splitlines()
    assert says in why
    assert last == (
        f"the users are not there after 1 s (status 1, the lines above say why); the node's role must be let read {URI}"
    )
    assert settled["n1"].run(*accounts).stdout == before
