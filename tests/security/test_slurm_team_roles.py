"""Threat: a user of a Slurm cluster takes the role of the node, or that of another team. By real users on a real node.

The node has the kernel's firewall, systemd, and the step that the lifecycle scripts run. moto is its metadata service
and its STS.
"""

from __future__ import annotations

import grp
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from delivery.render_manifests import render
from lifecycle_scripts.team_roles import credentials, follow
from tests.lifecycle_scripts.nodes import Lab, Node, missing, nodes
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.lifecycle_scripts.steps import run_step
from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_accounts import role_variable, slurm_accounts

WHY_NOT = missing()
on_a_node = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
PLATFORM: dict[str, Any] = {
    "name": "atlas",
    "region": "us-west-2",
    "zones": ["usw2-az1"],
    "orchestrator": "hyperpod-slurm",
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 3}],
    "teams": [
        {"name": "vision", "users": ["ada", "grace"]},
        {"name": "vision-2", "users": ["cyd", "grace"]},
    ],
}
DOCUMENT = "data/lifecycle_scripts/slurm-accounts.json"
PARAMETERS = {
    "slurm": {"team_roles": True},
    "slurm_accounts": {"s3_uri": f"s3://{DOCUMENT}", "region": "us-west-2"},
}
USERS = {"ada": 2001, "cyd": 2002, "grace": 2003, "eve": 2004}
SERVICE = "http://127.0.0.1:491"
# The addresses of the metadata service, and those that the node asks from.
METADATA = {"169.254.169.254": "127.0.0.1", "fd00:ec2::254": "::1"}
V4, V6 = METADATA
# The role of the node comes from the metadata service, as on EC2, and the role of the team from STS.
AWS = f"""#!/usr/bin/env bash
[[ "$1 $2" == "sts assume-role" ]] || exec /usr/local/bin/aws-of-tests "$@"
exec {sys.executable} - "$@" <<'PROGRAM'
import json, sys, boto3
options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
sts = boto3.client("sts", region_name=options["--region"], endpoint_url="http://127.0.0.1")
answer = sts.assume_role(RoleArn=options["--role-arn"], RoleSessionName=options["--role-session-name"])
print(json.dumps({{"Credentials": answer["Credentials"]}}, default=str))
PROGRAM
"""
IDENTITY = (
    "import boto3; sts = boto3.client('sts', region_name='us-west-2', endpoint_url='http://127.0.0.1');"
    "print(sts.get_caller_identity()['Arn'])"
)
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 80), 20, (sys.argv[2], 0))"
ASK = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=300).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""

# A node, a container, and the metadata service, each with a network of its own.
FORWARDED = """
mount -t tmpfs run /run
for each in container metadata; do ip netns add $each; ip -n $each link set lo up; done
ip link add name to-c type veth peer name eth0 netns container
ip link add name to-m type veth peer name eth0 netns metadata
ip address add 10.9.0.1/24 dev to-c
ip address add 169.254.169.253/30 dev to-m
ip -n container address add 10.9.0.2/24 dev eth0
ip -n metadata address add 169.254.169.254/30 dev eth0
for each in to-c to-m; do ip link set $each up; done
for each in container metadata; do ip -n $each link set eth0 up; done
ip -n container route add default via 10.9.0.1
ip -n metadata route add default via 169.254.169.253
sysctl -q net.ipv4.ip_forward=1
ip netns exec metadata /usr/bin/python3 -m http.server --bind 169.254.169.254 80 >/dev/null 2>&1 &
reach() {
  ip netns exec container /usr/bin/python3 -c 'import socket
socket.create_connection(("169.254.169.254", 80), 20)' 2>/dev/null
}
until reach; do sleep 0.1; done
echo reached
nft --file - <<<"$1"
reach || echo refused
"""


def role_arn(team: str) -> str:
    return f"arn:aws:iam::123456789012:role/of-{team}"


def deliver(lab: Lab, **changes: Any) -> None:
    """Upload the teams to the location from which nodes fetch them, as the delivery does."""
    platform = Platform.model_validate(PLATFORM | changes)
    roles = {role_variable(team.name): role_arn(team.name) for team in platform.teams}
    file = lab.s3 / DOCUMENT
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(render(json.dumps(slurm_accounts(platform)), roles))


def as_user(node: Node, user: str, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the user ID of a user, as slurmd starts a task."""
    uid = USERS.get(user, 0)
    prefix = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    words = [f"{name}={value}" for name, value in {"HOME": "/nonexistent", **environment}.items()]
    return node.run(*prefix, "env", *words, *command, check=False)


def ask(node: Node, user: str, team: str) -> str:
    return as_user(node, user, "/usr/bin/python3", "-c", ASK, f"{SERVICE}/{team}").stdout.strip()


def reaches_metadata(node: Node, user: str, address: str) -> bool:
    done = as_user(node, user, "/usr/bin/python3", "-c", CONNECT, address, METADATA[address])
    assert done.returncode == 0 or "ConnectionRefusedError" in done.stderr, done.stderr
    return done.returncode == 0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with nodes(tmp_path_factory.mktemp("lab"), {"controller": ["ctl"]}, parameters=PARAMETERS) as made:
        node = made["ctl"]
        (node.root / "usr/local/bin/aws").rename(node.root / "usr/local/bin/aws-of-tests")
        node.write("/usr/local/bin/aws", AWS, 0o755)
        for user, uid in USERS.items():
            node.run("useradd", f"--uid={uid}", "--create-home", "--shell=/bin/bash", user)
        for address in METADATA:
            node.run("ip", "address", "add", address, "dev", "lo")
        node.run("mkdir", "/fsx")
        moto = "from moto.server import main; main(['-H', '::', '-p', '80'])"
        started = subprocess.Popen(node.inside(sys.executable, "-c", moto), stderr=subprocess.DEVNULL)
        try:
            wait_for("moto answers", lambda: reaches_metadata(node, "ada", V4))
            assert reaches_metadata(node, "ada", V6), "without the wall, everybody reaches it"
            deliver(made)
            done = run_step(node, "42-team-roles")
            assert done.returncode == 0, done.stdout
            yield made
        finally:
            started.kill()
            started.wait()


@on_a_node
def test_a_member_has_the_role_of_the_team_and_nobody_else_has(lab: Lab) -> None:
    node = lab["ctl"]
    login = ("su", "-", "ada", "-c", f'{sys.executable} -c "{IDENTITY}"')
    assert node.run(*login).stdout.strip() == "arn:aws:sts::123456789012:assumed-role/of-vision/ada", "a login shell"
    # Somebody of two teams chooses one.
    chosen = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{SERVICE}/vision-2"}
    said = as_user(node, "grace", sys.executable, "-c", IDENTITY, **chosen).stdout
    assert said.strip() == "arn:aws:sts::123456789012:assumed-role/of-vision-2/grace"
    given = json.loads(ask(node, "ada", "vision"))
    assert json.loads(ask(node, "ada", "vision")) == given, "one session for all processes of a user"
    assert given["AccessKeyId"] != json.loads(ask(node, "grace", "vision"))["AccessKeyId"]
    # A member of another team, a user of no team, root, and an address of no team.
    for user, team in (
        ("cyd", "vision"),
        ("ada", "vision-2"),
        ("eve", "vision"),
        ("root", "vision"),
        ("ada", "x/../y"),
    ):
        said = ask(node, user, team)
        assert said.startswith(("403", "400")) and "SecretAccessKey" not in said, (user, team, said)
    log = node.run("journalctl", "--unit=trainway-credentials", "--output=cat").stdout
    assert "refused: cyd is no member of a team vision: " in log
    assert given["SecretAccessKey"] not in log and given["Token"] not in log and given["AccessKeyId"] not in log


@on_a_node
@pytest.mark.parametrize("address", METADATA)
def test_only_root_reaches_the_metadata_service(lab: Lab, address: str) -> None:
    node = lab["ctl"]
    assert reaches_metadata(node, "root", address)
    assert not reaches_metadata(node, "ada", address) and not reaches_metadata(node, "eve", address)
    # As root of a user namespace, which rootless containers have.
    own = ("unshare", "--map-root-user", "/usr/bin/python3", "-c", CONNECT, address, METADATA[address])
    assert "ConnectionRefusedError" in as_user(node, "ada", *own).stderr
    # Rules that something else removed come back, at the latest after two minutes.
    node.run("nft", "flush", "ruleset")
    assert reaches_metadata(node, "ada", address)
    node.run("systemctl", "start", "trainway-team-roles.service")
    assert not reaches_metadata(node, "ada", address)


@on_a_node
def test_a_restart_of_the_service_loses_nothing_and_the_node_keeps_the_wall(lab: Lab) -> None:
    node = lab["ctl"]
    before = json.loads(ask(node, "ada", "vision"))
    node.run("systemctl", "stop", "trainway-credentials.service")
    assert json.loads(ask(node, "ada", "vision"))["AccessKeyId"] != before["AccessKeyId"], "of a new process"
    enabled = node.run("systemctl", "is-enabled", "trainway-metadata-wall", "trainway-credentials.socket").stdout
    assert enabled.split() == ["enabled", "enabled"]
    # As at the start of the node, before jobs and logins.
    node.run("nft", "flush", "ruleset")
    assert reaches_metadata(node, "ada", V4)
    node.run("systemctl", "start", "trainway-metadata-wall")
    assert not reaches_metadata(node, "ada", V4)
    order = node.run("systemctl", "show", "--property=Before", "--value", "trainway-metadata-wall").stdout.split()
    assert {"slurmd.service", "ssh.service"} <= set(order)
    # Below 1024, so that no user takes the port while the node starts.
    taken = as_user(node, "eve", "/usr/bin/python3", "-c", "import socket; socket.create_server(('127.0.0.2', 491))")
    assert "PermissionError" in taken.stderr


@on_a_node
def test_only_members_reach_the_files_of_a_team(lab: Lab) -> None:
    """Log in as users. A job of a user has the same groups as a login."""
    node = lab["ctl"]

    def shell(user: str, command: str) -> subprocess.CompletedProcess[str]:
        return node.run("su", "-", user, "-c", command, check=False)

    assert shell("ada", "mkdir /fsx/runs/vision/a && echo loss > /fsx/runs/vision/a/log").returncode == 0
    assert shell("grace", "cat /fsx/runs/vision/a/log").stdout == "loss\n", "a colleague"
    for user in ("cyd", "eve"):
        for attempt in (
            "cat /fsx/runs/vision/a/log",
            "ls /fsx/runs/vision",
            "touch /fsx/corpus/vision/a",
            "rm -r /fsx/runs/vision/a",
        ):
            assert "Permission denied" in shell(user, attempt).stderr, (user, attempt)
        assert "Permission denied" in shell(user, "mv /fsx/runs/vision /fsx/runs/mine").stderr
    assert shell("cyd", "touch /fsx/corpus/vision-2/a").returncode == 0, "the own team"


@on_a_node
def test_changes_of_teams_reach_a_node_that_lives(lab: Lab) -> None:
    node = lab["ctl"]
    again = run_step(node, "42-team-roles")
    assert again.returncode == 0, again.stdout
    first, second = PLATFORM["teams"]
    renamed = [first | {"name": "sight"}, second | {"users": ["cyd", "eve"]}]
    deliver(lab, teams=renamed)
    node.run("systemctl", "start", "trainway-team-roles.service")
    assert ask(node, "ada", "vision").startswith("403"), "the team has another name"
    assert json.loads(ask(node, "ada", "sight"))["RoleArn"] == role_arn("sight")
    assert json.loads(ask(node, "eve", "vision-2"))["RoleArn"] == role_arn("vision-2"), "a new member"
    assert ask(node, "grace", "vision-2").startswith("403"), "a former member"
    modes = node.run("stat", "--format=%a %U %G", "/fsx/runs", "/fsx/runs/sight", "/fsx/checkpoints/vision-2").stdout
    assert modes.splitlines() == ["755 root root", "2770 root team-sight", "2770 root team-vision-2"]
    members = node.run("getent", "group", "team-sight", "team-vision", "team-vision-2").stdout.split()
    assert [each.rpartition(":")[2] for each in members] == ["ada,grace", "", "cyd,eve"], "a former team has nobody"
    # Where all teams share all prefixes again, the nodes that have the wall give it up.
    deliver(lab, storage={"bucket": {"team_prefixes": False}})
    node.run("systemctl", "start", "trainway-team-roles.service")
    assert reaches_metadata(node, "ada", V4)
    assert not (node.root / "opt/trainway/team-roles/first-teams").exists()
    assert not ask(node, "ada", "sight").startswith("{")


@on_a_node
def test_a_container_with_a_network_of_its_own_does_not_reach_the_metadata_service() -> None:
    """The node forwards the packets of the container, also those of its root. The namespaces end with the command."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", FORWARDED]
    done = subprocess.run([*command, "-", follow.WALL], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["reached", "refused"], done.stdout + done.stderr


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """Serve on a port of this machine. A test may set its limit before it connects."""
    monkeypatch.setattr(credentials, "REQUEST_SECONDS", 300.0)
    with credentials.Server(socket.create_server(("127.0.0.1", 0)), tmp_path / "teams.json", "us-west-2") as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.socket.getsockname()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET /vision HTTP/1.1\r\nHost: ", "not complete after 0.3 s"),
        (b"GET /vi" + b"x" * 20000, "more than 8192 bytes"),
        (b"POST /vision HTTP/1.1\r\n\r\n", "not GET /TEAM"),
        (b"GET /vision HTTP/1.1\r\n\r\n", "cannot be read"),
    ],
)
def test_a_request_that_is_slow_long_or_another_one_is_refused(
    service: tuple[str, int], sent: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "not complete" in reason:
        monkeypatch.setattr(credentials, "REQUEST_SECONDS", 0.3)
    with socket.create_connection(service, 300) as connection:
        connection.sendall(sent)
        said = b""
        while more := connection.recv(4096):
            said += more
    assert said.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 503 ")) and reason in said.decode()


def test_the_owner_of_a_connection_is_known_while_it_is_open() -> None:
    """The kernel lists a socket whose process has ended as root's. The service must not take it for root."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for family in (socket.AF_INET, socket.AF_INET6):
            host = "127.0.0.1" if family == socket.AF_INET else "::ffff:127.0.0.1"
            client = socket.socket(family)
            client.connect((host, listener.getsockname()[1]))
            accepted, _ = listener.accept()
            with accepted:
                found = credentials.uid_at_other_end(accepted)
                assert found == Path("/proc/self").stat().st_uid, family
                client.close()
                assert credentials.uid_at_other_end(accepted) is None


def test_credentials_are_renewed_before_they_end_and_kept_if_sts_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answers(key: str, minutes: float) -> None:
        end = datetime.now(UTC) + timedelta(minutes=minutes)
        given = {"AccessKeyId": key, "SecretAccessKey": "s", "SessionToken": "t", "Expiration": end.isoformat()}
        (tmp_path / "aws").write_text(f"#!/bin/sh\necho '{json.dumps({'Credentials': given})}'\n")
        (tmp_path / "aws").chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    sessions = credentials.Sessions("us-west-2")
    answers("first", 25)
    assert sessions.get("role", "ada")["AccessKeyId"] == "first"
    answers("second", 60)
    assert sessions.get("role", "ada")["AccessKeyId"] == "first", "it lasts for long"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 600)
    (tmp_path / "aws").write_text("#!/bin/sh\necho 'AccessDenied: no' >&2; exit 254\n")
    assert sessions.get("role", "ada")["AccessKeyId"] == "first", "it has not ended"
    assert capsys.readouterr().err == "no credentials of role for ada: AccessDenied: no\n"
    monkeypatch.setattr(credentials, "PAUSE_SECONDS", 0)
    answers("second", 60)
    assert sessions.get("role", "ada")["AccessKeyId"] == "second"
    (tmp_path / "aws").write_text("#!/bin/sh\necho secret\n")
    with pytest.raises(credentials.RefusedRequest) as refused:
        sessions.get("role", "eve")
    assert "secret" not in str(refused.value)


def test_names_of_sessions_are_those_that_sts_accepts() -> None:
    assert [credentials.session_name(each) for each in ("ada", "a", "CORP\\ada")] == ["ada", "user-a", "CORP-ada"]


def test_a_directory_of_a_user_is_not_opened(tmp_path: Path) -> None:
    """Root follows no link of a user, and changes nothing that is a user's."""
    for name in ("runs", "elsewhere"):
        (tmp_path / name).mkdir(0o755)
    (tmp_path / "runs/vision").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "corpus").mkdir(0o700)
    group = grp.getgrgid(os.getgid()).gr_name
    follow.open_directories(tmp_path, ["runs/vision/a", "corpus/vision"], group)
    assert (tmp_path / "elsewhere").stat().st_mode & 0o7777 == 0o755 and not (tmp_path / "elsewhere/a").exists()
    assert (tmp_path / "corpus").stat().st_mode & 0o7777 == 0o700
    # An administrator has let others read it.
    (tmp_path / "corpus/vision").chmod(0o2775)
    follow.open_directories(tmp_path, ["corpus/vision"], group)
    assert (tmp_path / "corpus/vision").stat().st_mode & 0o7777 == 0o2775
