"""The containers of a training job, as far as a job sees them: /opt/ml, names for the hosts, SageMaker's own file.

A container is a process in namespaces, and the first one in it is the one that is told to stop. Nothing of this
outlives the test.
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

ROOT = Path(__file__).parents[3]
LONGEST_SECONDS = 240

# What SageMaker does before it starts a container. Only what the job needs is below its /opt.
BOOT = """
set -e
mount --make-rprivate /
mount --bind "$1/hosts" /etc/hosts
mount -t tmpfs opt /opt
mkdir -p /opt/ml/input/config
cp "$1/$2/resourceconfig.json" /opt/ml/input/config/
for channel in "$1"/channels/*; do
  mkdir -p "/opt/ml/input/data/${channel##*/}"
  mount --bind "$channel" "/opt/ml/input/data/${channel##*/}"
done
mkdir -p /opt/ml/checkpoints
mount --bind "$1/checkpoints" /opt/ml/checkpoints
shift 2
exec "$@"
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
def containers(job: Mapping[str, Any], directory: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """The processes that a rendered request starts, on a network of their own.

    `directory` has `channels`, the input channels by their names, and gets `checkpoints`, what SageMaker copies.
    """
    names = [f"algo-{index + 1}" for index in range(job["ResourceConfig"]["InstanceCount"])]
    addresses = "".join(f"127.0.0.{index + 1} {name}\n" for index, name in enumerate(names))
    (directory / "hosts").write_text(f"127.0.0.1 localhost\n{addresses}")
    (directory / "checkpoints").mkdir(exist_ok=True)
    (directory / "boot.sh").write_text(BOOT)
    for name in names:
        (directory / name).mkdir(exist_ok=True)
        resources = {"current_host": name, "hosts": names, "network_interface_name": "lo"}
        (directory / name / "resourceconfig.json").write_text(json.dumps(resources))
    network = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", f"ip link set lo up && echo up && exec sleep {LONGEST_SECONDS}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    started: list[subprocess.Popen[str]] = []
    try:
        assert network.stdout is not None
        assert network.stdout.readline() == "up\n"
        # The last host first, so that hosts wait for the one where they meet.
        started += [_container(job, directory, name, network.pid) for name in reversed(names)]
        yield started[::-1]
    finally:
        for process in (*started, network):
            process.kill()
            process.wait()


def _container(job: Mapping[str, Any], directory: Path, name: str, network: int) -> subprocess.Popen[str]:
    algorithm = job["AlgorithmSpecification"]
    command: Sequence[str] = (*algorithm["ContainerEntrypoint"], *algorithm["ContainerArguments"])
    # What the image sets for itself (container/Dockerfile).
    image = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    inside = ("nsenter", f"--net=/proc/{network}/ns/net", "unshare", "--mount", "--")
    return subprocess.Popen(
        [*inside, "sh", str(directory / "boot.sh"), str(directory), name, *command],
        env={"HOME": str(directory), "OMP_NUM_THREADS": "1", **image, **job["Environment"]},
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
