"""The containers of a training job, as far as a job sees them: /opt/ml, names for the hosts, SageMaker's own file.

A container is a process in namespaces, and the first one in it is the one that is told to stop. It starts as root, and
all that it finds belongs to root. Nothing of this outlives the test.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.program_directories import hide

ROOT = Path(__file__).parents[3]
LONGEST_SECONDS = 3600
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}

# What SageMaker does before it starts a container. Only what the job needs is below its /opt.
BOOT = """
set -e
mount --make-rprivate /
mount --bind "$1/hosts" /etc/hosts
{empty_opt}
mkdir -p /opt/ml/input/config
cp "$1/$2/resourceconfig.json" /opt/ml/input/config/
for channel in "$1"/channels/*; do
  mkdir -p "/opt/ml/input/data/${channel##*/}"
  mount --bind "$channel" "/opt/ml/input/data/${channel##*/}"
done
mkdir -p /opt/ml/checkpoints /opt/ml/output/data /opt/ml/model
mount --bind "$1/$2/checkpoints" /opt/ml/checkpoints
mount --bind "$1/$2/output" /opt/ml/output
# What the agent leaves there.
echo left >/opt/ml/checkpoints/left-by-root
# Every user can read the code and Python in an image.
{programs}
shift 2
cd /
exec "$@"
"""
# Sockets of files are reached from every network: a connection to the first address continues to the second.
RELAY = """
import socket, sys, threading

def connect(address):
    made = socket.socket(socket.AF_UNIX if address.startswith("/") else socket.AF_INET)
    made.connect(address if address.startswith("/") else ("127.0.0.1", int(address)))
    return made

def copy(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass

at, to = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX if at.startswith("/") else socket.AF_INET)
listener.bind(at if at.startswith("/") else ("127.0.0.1", int(at)))
listener.listen(100)
print("listens", flush=True)
while True:
    here = listener.accept()[0]
    there = connect(to)
    for pair in ((here, there), (there, here)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
"""


def missing() -> str | None:
    """Why no containers can be started here; None if they can. Continuous integration skips nothing."""
    if "CI" in os.environ:
        return None
    if os.geteuid():
        return "only root may make namespaces"
    absent = [program for program in ("ip", "nsenter", "unshare") if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


@contextmanager
def containers(
    job: Mapping[str, Any], directory: Path, s3_port: int | None = None, *, own_image: bool = False
) -> Iterator[list[subprocess.Popen[str]]]:
    """The processes that a rendered request starts, on a network of their own.

    `directory` has `channels`, the input channels by their names, and gets a folder for each host, with what is its
    `checkpoints` and its `output`. `s3_port` is where this machine has an S3, which the hosts reach at the same port.
    The code of the training job is in the image, unless the image is the user's own (`own_image`).
    """
    names = [f"algo-{index + 1}" for index in range(job["ResourceConfig"]["InstanceCount"])]
    addresses = "".join(f"127.0.0.{index + 1} {name}\n" for index, name in enumerate(names))
    (directory / "hosts").write_text(f"127.0.0.1 localhost\n{addresses}")
    # An image of a user's own has no package of the project.
    (directory / "channels/absent").mkdir(parents=True, exist_ok=True)
    for package in ("training", "trainway"):
        (directory / "channels/absent" / f"{package}.py").write_text("raise ImportError('not in the image')\n")
    boot = BOOT.replace("{empty_opt}", hide("/opt")).replace("{programs}", hide("/root", "/tmp", open_to_all=True))
    (directory / "boot.sh").write_text(boot)
    for name in names:
        for folder in ("checkpoints", "output"):
            (directory / name / folder).mkdir(parents=True, exist_ok=True)
        resources = {"current_host": name, "hosts": names, "network_interface_name": "lo"}
        (directory / name / "resourceconfig.json").write_text(json.dumps(resources))
    network = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", f"ip link set lo up && echo up && exec sleep {LONGEST_SECONDS}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    started: list[subprocess.Popen[str]] = []
    relays: list[subprocess.Popen[str]] = []
    try:
        assert network.stdout is not None
        assert network.stdout.readline() == "up\n"
        if s3_port is not None:
            meeting = str(directory / "s3.socket")
            Path(meeting).unlink(missing_ok=True)
            inside = ("nsenter", f"--net=/proc/{network.pid}/ns/net")
            relays += [_relay((), meeting, str(s3_port)), _relay(inside, str(s3_port), meeting)]
        # The last host first, so that hosts wait for the one where they meet.
        s3 = {} if s3_port is None else {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3_port}", **_CREDENTIALS}
        started += [_container(job, directory, name, network.pid, s3, own_image) for name in reversed(names)]
        yield started[::-1]
    finally:
        for process in (*started, *relays, network):
            process.kill()
            process.wait()


def _relay(inside: Sequence[str], at: str, to: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([*inside, sys.executable, "-c", RELAY, at, to], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "listens\n"
    return process


def _container(
    job: Mapping[str, Any], directory: Path, name: str, network: int, s3: Mapping[str, str], own_image: bool
) -> subprocess.Popen[str]:
    algorithm = job["AlgorithmSpecification"]
    command: Sequence[str] = (*algorithm["ContainerEntrypoint"], *algorithm["ContainerArguments"])
    # What the image sets for itself (container/Dockerfile).
    image = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
    image |= {"PYTHONDONTWRITEBYTECODE": "1"} | {"PYTHONPATH": "/opt/ml/input/data/absent" if own_image else str(ROOT)}
    inside = ("nsenter", f"--net=/proc/{network}/ns/net", "unshare", "--mount", "--")
    return subprocess.Popen(
        [*inside, "sh", str(directory / "boot.sh"), str(directory), name, *command],
        env={"HOME": "/root", "OMP_NUM_THREADS": "1", **image, **s3, **job["Environment"]},
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
