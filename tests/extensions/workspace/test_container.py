"""What a workspace's container runs makes an environment that begins with the image's, and ends in JupyterLab."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.launch.kubernetes.kubelet import expanded
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.manifests.platforms import CATALOGUE
from tests.ports import free_port
from trainway.extensions.workspace import WorkspaceRequest, define, render_workspace


def container(home: Path) -> tuple[list[str], dict[str, str]]:
    """Command and environment of the rendered container, on this machine: its home is at another place."""
    hand_off = hand_off_of(platform_named("nobody"))
    workspace = define(hand_off, lambda _: "image", CATALOGUE, WorkspaceRequest("ada"))
    (rendered,) = render_workspace(workspace, CATALOGUE, "secret")[-1]["spec"]["template"]["spec"]["containers"]
    told = {each["name"]: each["value"] for each in rendered["env"] if "value" in each}
    image = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "JUPYTER_TOKEN": "secret"}
    command = [expanded(word, {}) for word in rendered["command"]]
    return command, {**told, **image, "HOME": str(home)}


@pytest.mark.exhaustive
def test_the_environment_is_the_owners_and_begins_with_what_the_image_has(tmp_path: Path) -> None:
    image = tmp_path / "image"
    subprocess.run([sys.executable, "-m", "venv", str(image)], check=True)
    (packages,) = image.glob("lib/python*/site-packages")
    (packages / "of_the_image.py").touch()
    command, environment = container(tmp_path / "home")
    environment |= {"PATH": f"{image}/bin:/usr/bin:/bin", "PIP_NO_INDEX": "1"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert ran.returncode == 1
    assert "start the workspace with an --index that it reaches" in ran.stderr
    (python,) = (tmp_path / "home/.workspace").glob("python-*/bin/python")
    seen = "import of_the_image, sys; print(sys.prefix, of_the_image.__file__)"
    prefix, module = subprocess.run([python, "-c", seen], capture_output=True, text=True, check=True).stdout.split()
    assert prefix == str(python.parent.parent)
    assert Path(module).is_relative_to(image)


@pytest.mark.exhaustive
def test_jupyter_answers_those_who_have_the_token_and_ends_when_it_is_idle_or_told_to(tmp_path: Path) -> None:
    command, environment = container(tmp_path / "home")
    # The container's user is not root; whoever runs the tests may be, which Jupyter refuses unless its owner says so.
    settings = tmp_path / "home/.jupyter/jupyter_server_config.py"
    settings.parent.mkdir(parents=True)
    settings.write_text("c.ServerApp.allow_root = True\n")
    port = free_port()
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [word.replace("--ServerApp.port=8888", f"--ServerApp.port={port}") for word in command],
            env=environment,
            stdout=out,
            stderr=out,
        )
    try:
        status = answer(f"http://127.0.0.1:{port}/api/status?token=secret", process, log)
        assert status["kernels"] == 0
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/status", timeout=60)
        assert (tmp_path / "home").is_dir() and "http://127.0.0.1:" in log.read_text()
        # Jupyter says what it has understood when it starts, and at its first kernel and terminal.
        assert "Will shut down after 3600 seconds with no kernels." in log.read_text()
        for what in ("kernels", "terminals"):
            created = urllib.request.Request(f"http://127.0.0.1:{port}/api/{what}?token=secret", data=b"{}")
            urllib.request.urlopen(created, timeout=60)
        assert "Culling kernels with idle durations > 3600 seconds at 60 second" in log.read_text()
        assert "Culling kernels even with connected clients" in log.read_text()
        assert "Culling terminals with inactivity > 3600 seconds at 60 second" in log.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=300) == 0 or os.WIFSIGNALED(process.returncode)


def answer(url: str, process: subprocess.Popen[bytes], log: Path) -> Any:
    """What the server says, once it does."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=60) as answered:
                return json.load(answered)
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise AssertionError(log.read_text())
