"""The container of a HyperPodPyTorchJob starts HyperPod's real elastic agent, which takes the operator's requests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.launch.kubernetes.platforms import pods_of, request_for, without_copies
from tests.manifests.platforms import CATALOGUE
from tests.ports import free_port
from tests.seams.seam import Planted, Seam
from tests.synthesis import ROOT
from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.kubernetes.render import render_documents
from trainway.launch.program.program import STARTER
from trainway.launch.program.stopping import STOPPED
from trainway.spec.facts.versions import requirements_of
from trainway.spec.loader import load_versions

LIST = requirements_of("hyperpod-elastic-agent", load_versions().hyperpod_elastic_agent[0].version)
AGENT = ROOT / "container/requirements" / LIST
# hyperpodrun as the image's PyTorch has it. The PyTorch of the tests is newer, and torchrun's own --shutdown-timeout
# gives way to the agent's.
HYPERPODRUN = """\
import argparse, functools, sys
import torch.distributed.run as torchrun
torchrun.ArgumentParser = functools.partial(argparse.ArgumentParser, conflict_handler="resolve")
from hyperpod_elastic_agent.run import main
sys.exit(main())
"""
# A rank that writes down its start, and the signal that ends it.
RANK = """\
import os, pathlib, signal, sys, time
def written(what):
    pathlib.Path(sys.argv[1], f"{what}-{os.environ['RANK']}").touch()
def stop(*_):
    written("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
written("started")
time.sleep(3600)
"""
PATIENCE_SECONDS = 120
Container = dict[str, Any]


@cache
def packages() -> Path:
    """Return a directory with the agent and what it requires, at the versions of the image's list."""
    directory = Path(mkdtemp(prefix="agent-"))
    wanted = re.findall(r"^\S+==\S+", AGENT.read_text(encoding="utf-8"), re.MULTILINE)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(directory)]
    subprocess.run([*command, *wanted], check=True, capture_output=True)
    return directory


def container() -> Container:
    """Return the container of a rendered HyperPodPyTorchJob of two nodes, whose program torchrun would start."""
    request = request_for("governance", run={"command": ["torchrun", "rank.py"]})
    *_, job = render_documents(request, CATALOGUE, KubernetesOptions(kind="HyperPodPyTorchJob"))
    (template,) = pods_of(job)
    (found,) = (each for each in template["spec"]["containers"] if each["name"] == "pytorch")
    return dict(found)


def agent(change: Callable[[Container], Container], directory: Path) -> list[str]:
    """Return what goes wrong when the agent starts as the container says, and is told to start and stop the ranks."""
    made = change(container())
    made["command"] = without_copies(made["command"])
    starter, begin = made["command"][1], made["command"].index("--") + 1
    name, *options, script = made["command"][begin:]
    assert (Path(starter).name, name, script) == (STARTER.name, "hyperpodrun", "rank.py")
    (directory / script).write_text(RANK, encoding="utf-8")
    (directory / "bin").mkdir()
    (directory / "bin" / name).write_text(f"#!{sys.executable}\n{HYPERPODRUN}", encoding="utf-8")
    (directory / "bin" / name).chmod(0o755)
    port = free_port()
    variables = {each["name"]: each["value"] for each in made["env"] if "value" in each}
    variables |= {"PET_LOG_DIR": str(directory / "logs"), "PYTHONPATH": str(packages()), "TMPDIR": str(directory)}
    variables |= {"PATH": f"{directory / 'bin'}:{os.environ['PATH']}", "POD_NAME": "small-pods-1"}
    variables |= {"TRAINWAY_RUN": str(directory), "TRAINWAY_OUTPUT": str(directory / "outputs")}
    given = made["command"][2:begin]
    command = [sys.executable, str(STARTER), *given, name, f"--server-port={port}", *options, script]
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, str(directory)], env={**os.environ, **variables}, stdout=output, stderr=subprocess.STDOUT
        )
    ranks = int(variables["PET_NPROC_PER_NODE"])

    def there(what: str) -> bool:
        return len(list(directory.glob(f"{what}-*"))) == ranks

    try:
        if not until(lambda: status(port) == "ready" or process.poll() is not None) or process.poll() is not None:
            return log.read_text(encoding="utf-8").splitlines()[-3:]
        start = {
            "rank": 0,
            "nnodes": 2,
            "faultCount": 0,
            "master_addr": "127.0.0.1",
            "master_port": 29500,
            "progress": {},
        }
        post(port, "start", start)
        if not until(lambda: there("started")):
            return [f"only some of {ranks} ranks started"]
        post(port, "stop", {"restart_mode": "plr"})
        until(lambda: status(port) == "ready")
        if not there("stopped"):
            return ["the ranks were killed without SIGTERM"]
        process.terminate()
        ended = process.wait(timeout=PATIENCE_SECONDS)
        return [] if ended == STOPPED else [f"the node that was asked to stop ended with {ended}"]
    finally:
        process.kill()
        process.wait()


def until(holds: Callable[[], bool]) -> bool:
    """Wait until something holds, for PATIENCE_SECONDS at most; return whether it does."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.2)
    return held


def status(port: int) -> str:
    """Return the status of the agent on that port, or nothing if it does not answer yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=120) as answer:
            return str(json.load(answer)["status"])
    except OSError:
        return ""


def post(port: int, what: str, document: dict[str, Any]) -> None:
    """Send the agent a request of the operator's; raises HTTPError if the agent refuses it."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{what}", json.dumps(document).encode(), headers)
    urllib.request.urlopen(request, timeout=60).close()


@cache
def as_rendered() -> tuple[str, ...]:
    """Return what goes wrong with the container as it is rendered."""
    return tuple(agent(lambda made: made, Path(mkdtemp(prefix="agent-"))))


def without_variable(name: str) -> Callable[[Container], Container]:
    """Return a change that leaves out a variable."""
    return lambda made: {**made, "env": [each for each in made["env"] if each["name"] != name]}


def with_option(old: str, new: str | None) -> Callable[[Container], Container]:
    """Return a change that replaces an option, or leaves it out."""

    def change(made: Container) -> Container:
        assert old in made["command"]
        words = [new if word == old else word for word in made["command"]]
        return {**made, "command": [word for word in words if word is not None]}

    return change


def planted(error: str, change: Callable[[Container], Container]) -> Planted:
    """Return an error that the agent must notice."""
    return Planted(error, lambda _: as_rendered(), lambda directory: agent(change, directory))


SEAMS = (
    Seam(
        artifact="Container of a HyperPodPyTorchJob",
        rendered_by="trainway/launch/kubernetes/hyperpod_pytorch_job.py",
        reader="the program's starter with hyperpod-elastic-agent, which starts and stops the ranks by the operator's "
        "requests",
        instead="The operator runs on HyperPod only, so the tests send its requests. The agent runs on the tests' "
        "PyTorch, where its option --shutdown-timeout takes the place of torchrun's.",
        planted=(
            planted("the number of nodes is not in the environment", without_variable("NNODES")),
            planted(
                "the signal is one that the agent does not know",
                with_option("--shutdown-signal=SIGTERM", "--shutdown-signal=SIGINT"),
            ),
            planted("the signal is left out", with_option("--shutdown-signal=SIGTERM", None)),
        ),
        # The test installs the agent, and starts PyTorch in a process per rank three times.
        exhaustive=True,
    ),
)
