"""Docker's own daemon starts with the daemon.json of a Slurm node, in namespaces of its own."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lifecycle_scripts.containers.docker_settings import with_defaults
from tests.seams.seam import Planted, Reading, Seam
from tests.synthesis import ROOT

INSTALL = ROOT / "scripts" / "install_docker"
Settings = dict[str, Any]
# What the image or somebody else may have set before, and whether the image has NVIDIA's runtime.
IMAGES: dict[str, tuple[Settings, bool]] = {
    "nothing is set": ({}, True),
    "no GPU": ({}, False),
    "the image has its runtime": ({"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}, True),
    "another log driver": ({"log-driver": "journald"}, True),
    "another limit of logs": ({"log-opts": {"max-size": "10m"}, "data-root": "/run/d/elsewhere"}, True),
}
# Starts the daemon without the machine's network, processes and mounts, until it answers or ends.
START = r"""
mount -t tmpfs run /run
mkdir /run/d
options=(--pidfile /run/d/pid --exec-root /run/d/exec --host unix:///run/d/socket --iptables=false --bridge=none)
grep -q data-root "$1" || options+=(--data-root /run/d/data)
dockerd --config-file "$1" --storage-driver=vfs "${options[@]}" >/run/d/said 2>&1 &
for ((tries = 0; tries < 2000; tries++)); do
  if docker --host unix:///run/d/socket version >/dev/null 2>&1; then
    exec docker --host unix:///run/d/socket info --format '{{json .}}'
  fi
  kill -0 $! 2>/dev/null || break
  sleep 0.1
done
cat /run/d/said >&2
exit 1
"""


@cache
def docker() -> Path:
    return Path(subprocess.run([INSTALL, "--where"], capture_output=True, text=True, check=True).stdout.strip())


def why_not() -> str | None:
    """Return why the daemon cannot be started here. Continuous integration skips nothing."""
    if "CI" in os.environ:
        return None
    if os.geteuid():
        return "only root may start Docker"
    return None if (docker() / "usr/sbin/dockerd").exists() else "scripts/install_docker was not called"


def read_by_docker(text: str, directory: Path) -> list[str]:
    """Return why the daemon does not start with these settings, or which of them it does not have."""
    if why := why_not():
        pytest.skip(why)
    file = directory / "daemon.json"
    file.write_text(text)
    unshare = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    path = f"{docker()}/usr/sbin:{docker()}/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    command = [*unshare, "bash", "-c", START, "-", str(file)]
    ran = subprocess.run(
        command, env={"PATH": path, "HOME": str(directory)}, capture_output=True, text=True, timeout=300, check=False
    )
    # What it says of a machine without all kinds of cgroups comes before.
    if ran.returncode:
        return ran.stderr.splitlines()[-1:] or ["the daemon ends without a word"]
    wanted, has = json.loads(text), json.loads(ran.stdout)
    found = []
    if has["LoggingDriver"] != wanted.get("log-driver", "json-file"):
        found.append(f"the log driver is {has['LoggingDriver']}")
    for name, runtime in wanted.get("runtimes", {}).items():
        if not (path := has["Runtimes"].get(name, {}).get("path")):
            found.append(f"the runtime {name} has no path, but {runtime}")
    return found


def written(image: str = "nothing is set") -> str:
    """Return the file of a node with an image."""
    settings, nvidia = IMAGES[image]
    return json.dumps(with_defaults(settings, nvidia=nvidia), indent=2) + "\n"


def reading(old: str, new: str) -> Reading:
    def read(directory: Path) -> list[str]:
        assert old in written()
        return read_by_docker(written().replace(old, new, 1), directory)

    return read


def planted(error: str, old: str, new: str) -> Planted:
    return Planted(error, sound=reading("", ""), broken=reading(old, new))


SEAMS = (
    Seam(
        artifact="Docker's daemon.json",
        rendered_by="lifecycle_scripts/containers/docker_settings.py",
        reader="dockerd 20.10 of Debian, which starts with the file and says what it has",
        planted=(
            planted("a key is misspelled", '"log-driver"', '"log-drivers"'),
            planted("an option of the log driver does not exist", "max-size", "max-sizes"),
            planted("a size is a number", '"100m"', "100"),
            planted("the path of the runtime has another name", '"path"', '"paths"'),
            planted("the file is no JSON", '"runtimes": {', '"runtimes": '),
        ),
    ),
)


@pytest.mark.parametrize("image", IMAGES)
def test_docker_starts_with_the_settings_on_every_image(image: str, tmp_path: Path) -> None:
    assert read_by_docker(written(image), tmp_path) == []
