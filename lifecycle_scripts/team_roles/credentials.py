"""Serve the credentials of a team's role to the members of the team: `credentials.py TEAMS REGION`, as root.

A job gets the address of its team, for example http://127.0.0.1:491/research, in AWS_CONTAINER_CREDENTIALS_FULL_URI,
which the SDKs of AWS ask for credentials if the address is one of the loopback interface. TEAMS is the file that
follow.py writes. The program listens on the socket of systemd, which keeps connections while the program restarts. A
port below 1024 cannot be taken by a user, who could give credentials of an account of their own to others.

No credential is logged. https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html (read
2026-11-26)
"""

from __future__ import annotations

import json
import pwd
import re
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
ESTABLISHED = "01"
REQUEST = re.compile(rb"GET /([a-z0-9-]{1,63})/? HTTP/1\.[01]\r\n")
LONGEST_REQUEST = 8192
REQUEST_SECONDS = 5.0
ASSUME_SECONDS = 30.0
# Some SDKs ask again 15 minutes before the end of credentials. A session of a role that another role has assumed lasts
# one hour at most: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles.html#iam-term-role-chaining (read
# 2026-11-26)
RENEWAL_SECONDS = 20 * 60
# After a failure, the ranks of a node do not all ask AWS.
PAUSE_SECONDS = 5
# For the ranks of a node, which begin together. A user cannot keep the service from others.
CONNECTIONS_OF_A_USER = 512


class RefusedRequest(Exception):
    """A request that is refused, with the status of HTTP and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Session(NamedTuple):
    """An answer with credentials, and its end in seconds since the epoch."""

    answer: dict[str, str]
    end: float


def uid_at_other_end(connection: socket.socket) -> int | None:
    """Return the user ID of the process that has opened a connection from this node, or None.

    The kernel lists the owner of each socket. Only an open connection is accepted: a socket that its process has closed
    is listed as root's. The addresses of an open connection belong to no other one.
    """
    try:
        there, here = connection.getpeername(), connection.getsockname()
    except OSError:
        return None
    for table in TABLES:
        is_v6 = table.endswith("6")
        wanted = [_as_listed(address, is_v6=is_v6) for address in (there, here)]
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, remote, state, _, _, _, uid, *_ = line.split()
            if [local, remote] == wanted and state == ESTABLISHED:
                return int(uid)
    return None


def _as_listed(address: tuple[str, int], *, is_v6: bool) -> str:
    """Return an IPv4 address and a port as the kernel lists them, in the byte order of the machine."""
    packed = socket.inet_aton(address[0])
    if is_v6:
        packed = bytes(10) + b"\xff\xff" + packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def session_name(user: str) -> str:
    """Return the name of the user's sessions, with which AWS logs their requests.

    https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html (read 2026-11-26)
    """
    name = re.sub(r"[^A-Za-z0-9_=,.@-]", "-", user)[:64]
    return name if len(name) > 1 else f"user-{name}"


def assume(role: str, user: str, region: str) -> Session:
    """Return credentials of the role. Raises `RefusedRequest` if AWS gives none."""
    command = ["aws", "sts", "assume-role", "--role-arn", role, "--role-session-name", session_name(user)]
    try:
        done = subprocess.run(
            [*command, "--region", region, "--output", "json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASSUME_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedRequest(500, f"the AWS CLI does not answer: {type(error).__name__}") from None
    if done.returncode:
        raise RefusedRequest(500, " ".join(done.stderr.split()) or f"the AWS CLI ended with status {done.returncode}")
    try:
        given = json.loads(done.stdout)["Credentials"]
        end = datetime.fromisoformat(given["Expiration"].replace("Z", "+00:00")).timestamp()
        answer = {
            "AccessKeyId": given["AccessKeyId"],
            "SecretAccessKey": given["SecretAccessKey"],
            "Token": given["SessionToken"],
            "Expiration": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end)),
            "RoleArn": role,
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        # Without the text, which may have a credential.
        raise RefusedRequest(500, "the answer of the AWS CLI has no credentials") from None
    return Session(answer, end)


class Sessions:
    """The sessions of roles by role and user. Each is renewed before it ends, by one thread at a time."""

    def __init__(self, region: str) -> None:
        self.region = region
        self.kept: dict[tuple[str, str], Session] = {}
        self.failed: dict[tuple[str, str], tuple[float, RefusedRequest]] = {}
        self.locks: dict[tuple[str, str], threading.Lock] = {}
        self.lock = threading.Lock()

    def get(self, role: str, user: str) -> dict[str, str]:
        """Return credentials of the role for the user. Raises `RefusedRequest` if there are none."""
        key = (role, user)
        with self.lock:
            own = self.locks.setdefault(key, threading.Lock())
        with own:
            had = self.kept.get(key)
            if had and had.end - time.time() > RENEWAL_SECONDS:
                return had.answer
            try:
                when, failure = self.failed.get(key, (0.0, None))
                if failure and time.monotonic() - when < PAUSE_SECONDS:
                    raise failure
                self.kept[key] = had = assume(role, user, self.region)
                self.failed.pop(key, None)
            except RefusedRequest as why:
                if self.failed.get(key, (0.0, None))[1] is not why:
                    say(f"no credentials of {role} for {user}: {why}")
                    self.failed[key] = (time.monotonic(), why)
                if had is None or had.end <= time.time():
                    raise
            return had.answer


def role_of(team: str, uid: int | None, teams: Path) -> tuple[str, str]:
    """Return the role of a team and the name of the user. Raises `RefusedRequest` if the user is no member."""
    try:
        user = pwd.getpwuid(uid).pw_name if uid is not None else None
    except KeyError:
        user = None
    if user is None:
        raise RefusedRequest(
            403, f"the process that asks for the team {team} belongs to no user of this node (uid {uid})"
        )
    try:
        found = json.loads(teams.read_text()).get(team)
    except (OSError, ValueError):
        raise RefusedRequest(503, f"{teams} cannot be read: see `journalctl -u trainway-team-roles`") from None
    if not found or user not in found["users"]:
        raise RefusedRequest(
            403, f"{user} is no member of a team {team}: name one of your teams, or ask an administrator"
        )
    return found["role"], user


class Server(socketserver.ThreadingTCPServer):
    """The service, on a socket that listens. Each request has a thread."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, teams: Path, region: str) -> None:
        super().__init__(listener.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.teams, self.sessions = listener, teams, Sessions(region)
        self.open: dict[int | None, int] = {}
        self.lock = threading.Lock()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        uid = uid_at_other_end(request)
        with self.lock:
            self.open[uid] = self.open.get(uid, 0) + 1
        try:
            if self.open[uid] <= CONNECTIONS_OF_A_USER:
                super().process_request_thread(request, client_address)
            else:
                self.shutdown_request(request)
        finally:
            with self.lock:
                self.open[uid] -= 1
                if not self.open[uid]:
                    del self.open[uid]

    def handle_error(self, _request: Any, _client_address: Any) -> None:
        """Log the kind of an error. Its text and its frames may have credentials."""
        error = sys.exc_info()[0]
        if error is not None and not issubclass(error, OSError):
            say(f"a request failed: {error.__name__}")


class Handler(socketserver.BaseRequestHandler):
    """One request, and its answer."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        try:
            found = REQUEST.match(self.head())
            if not found:
                raise RefusedRequest(400, "the request is not GET /TEAM")
            role, user = role_of(found[1].decode(), uid_at_other_end(self.request), server.teams)
            self.answer(200, server.sessions.get(role, user))
        except RefusedRequest as why:
            if why.status in (403, 503):
                say(f"refused: {why}")
            self.answer(why.status, {"code": "TeamRole", "message": str(why)})

    def head(self) -> bytes:
        """Return the head of the request. Raises `RefusedRequest` if it takes too many bytes or seconds."""
        end, read = time.monotonic() + REQUEST_SECONDS, b""
        while b"\r\n\r\n" not in read:
            left = end - time.monotonic()
            if left <= 0:
                raise RefusedRequest(400, f"the request is not complete after {REQUEST_SECONDS} s")
            if len(read) > LONGEST_REQUEST:
                raise RefusedRequest(400, f"the request has more than {LONGEST_REQUEST} bytes")
            self.request.settimeout(left)
            try:
                more = self.request.recv(4096)
            except TimeoutError:
                continue
            if not more:
                raise RefusedRequest(400, "the request is not complete")
            read += more
        return read

    def answer(self, status: int, document: dict[str, str]) -> None:
        """Send a JSON object, and end the connection."""
        body = json.dumps(document).encode()
        head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Refused'}\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.request.settimeout(REQUEST_SECONDS)
        self.request.sendall(head.encode() + body)


def say(line: str) -> None:
    """Log a line."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    teams, region = sys.argv[1:]
    # The first socket of the unit: https://manpages.debian.org/bookworm/libsystemd-dev/sd_listen_fds.3.en.html (read
    # 2026-11-26)
    with Server(socket.socket(fileno=3), Path(teams), region) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
