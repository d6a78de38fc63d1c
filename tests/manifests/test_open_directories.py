"""The processes of a pod can write where the launcher tells them to, on a file system whose directories root owns."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.launch.kubernetes.platforms import PLATFORMS, hand_off_of, request_for, request_on
from tests.manifests.platforms import CATALOGUE, platform_of
from trainway.launch.kubernetes.node_pod import NodeContainer, node_pod
from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.kubernetes.run import kubernetes_run
from trainway.launch.program.request import Request
from trainway.manifests.open_directories import keep_open
from trainway.manifests.pod import USER, Pod, pod_template
from trainway.spec.handoff import TeamData

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 and "CI" not in os.environ, reason="becomes root and another user, which requires root"
)


@pytest.fixture
def file_system() -> Iterator[Path]:
    """A directory with what FSx creates: directories that are linked to S3, and those of objects that were uploaded.

    It is not in tmp_path, which other users cannot reach.
    """
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        root.chmod(0o755)
        for each in ("corpus", "checkpoints", "runs/research/code", "runs/code"):
            (root / each).mkdir(parents=True)
        yield root


def pod_of(request: Request, file_system: Path) -> dict[str, Any]:
    """Return the pod of a run whose file system is a directory of this machine."""
    here = request.hand_off.mounted.model_copy(update={"mount_path": str(file_system)})
    request = Request(**{**vars(request), "hand_off": request.hand_off.model_copy(update={"file_system": here})})
    run = kubernetes_run(request, CATALOGUE, KubernetesOptions(kind="JobSet"))
    spec: dict[str, Any] = node_pod(run, NodeContainer("node"))["spec"]
    return spec


def start(pod: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run the pod's init container as the kubelet does: without capabilities, and with $$( as $(."""
    (container,) = pod["initContainers"]
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    identity = (f"--reuid={security['runAsUser']}", f"--regid={security['runAsGroup']}", "--clear-groups")
    command = [re.sub(r"\$\$(?=\()", "$", word) for word in container["command"]]
    return subprocess.run(
        ["setpriv", *identity, "--bounding-set=-all", "--inh-caps=-all", *command], capture_output=True, text=True
    )


def make_as_job(directory: Path) -> bool:
    """Make a directory as the user of a job. Return whether that was possible."""
    identity = (f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
    return subprocess.run(["setpriv", *identity, "mkdir", "-p", directory], capture_output=True).returncode == 0


def test_a_job_writes_below_directories_of_root_once_its_pod_has_opened_them(file_system: Path) -> None:
    request = request_for("nobody")
    run = file_system / f"runs/{request.run}"
    places = (run / "logs", file_system / "checkpoints/llama", file_system / "workspaces/ada", file_system / "corpus/a")
    assert not any(make_as_job(each) for each in places)
    done = start(pod_of(request, file_system))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert all(make_as_job(each) for each in places)
    assert not make_as_job(file_system / "elsewhere"), "the root of the file system stays closed"


def test_a_directory_with_another_owner_or_mode_stays_unchanged(file_system: Path) -> None:
    request = request_for("nobody")
    (file_system / "corpus").chmod(0o750)
    os.chown(file_system / "checkpoints", 20001, 20001)
    assert start(pod_of(request, file_system)).returncode == 0
    assert not make_as_job(file_system / "corpus/a") and not make_as_job(file_system / "checkpoints/a")


def test_the_prefixes_of_a_team_are_opened_which_an_upload_has_created(file_system: Path) -> None:
    own = TeamData(own=("checkpoints/research", "runs/research", "checkpoints/old"))
    shared = {"storage": {"lustre": {"team_directories": False}}}
    hand_off = hand_off_of(
        platform_of(**PLATFORMS["kueue"], **shared), team_data={"research": own, "product": TeamData(own=())}
    )
    request = request_on(hand_off)
    run = file_system / f"runs/research/{request.run}"
    assert not make_as_job(run / "logs")
    assert start(pod_of(request, file_system)).returncode == 0
    assert make_as_job(run / "logs") and make_as_job(file_system / "checkpoints/old/llama")


def test_a_file_system_on_which_root_can_change_nothing_is_told_and_the_job_starts(file_system: Path) -> None:
    pod = pod_of(request_for("nobody"), file_system)
    # Root of a client with root squash is another user.
    pod["initContainers"][0]["securityContext"] |= {"runAsUser": 65534, "runAsGroup": 65534}
    done = start(pod)
    assert done.returncode == 0
    assert f"WARNING: root cannot open {file_system}/workspaces" in done.stdout


def as_kubelet(words: Sequence[str]) -> list[str]:
    """Return a command with $$( as $(, as the kubelet does."""
    return [re.sub(r"\$\$(?=\()", "$", word) for word in words]


def test_a_pod_of_a_team_waits_until_the_platform_has_opened_its_directory(file_system: Path) -> None:
    """The container of the platform is root, and the pod of the team is not."""
    # The kubelet creates a missing subPath before a container starts.
    own = file_system / "teams/research"
    own.mkdir(parents=True)
    mount = {"name": "fsx", "mountPath": str(file_system)}
    opener = keep_open("image", mount, ["teams/research", "teams/product"])
    pod = pod_template(Pod(name="node", image="image", mount_path=str(own), directory="teams/research", user=USER))
    (waiter,) = pod["spec"]["initContainers"]
    security = pod["spec"]["securityContext"] | waiter["securityContext"]
    identity = (f"--reuid={security['runAsUser']}", f"--regid={security['runAsGroup']}", "--clear-groups")
    waiting = subprocess.Popen(
        ["setpriv", *identity, *as_kubelet(waiter["command"])], stdout=subprocess.PIPE, text=True
    )
    try:
        assert waiting.stdout is not None
        assert "is not writable yet" in waiting.stdout.readline()
        opening = subprocess.Popen(
            ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *as_kubelet(opener["command"])]
        )
        try:
            assert waiting.wait(timeout=60) == 0
        finally:
            opening.kill()
            opening.wait()
    finally:
        waiting.kill()
        waiting.communicate()
    assert make_as_job(own / "checkpoints") and make_as_job(file_system / "teams/product/a")
    assert not make_as_job(file_system / "teams/speech"), "the directories of the teams are the platform's own"
