"""A run on a platform without a file system: what its pods run trains, is killed, and resumes from S3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.launch.conftest import BUCKET, write_job
from tests.launch.kubernetes.kubelet import Pod, expanded, resolved
from tests.launch.kubernetes.platforms import OPERATORS, ROOT, hand_off_of, pods_of, request_on
from tests.manifests.platforms import CATALOGUE, platform_of
from tests.moto_server import moto_server
from tests.ports import free_port
from trainway.extensions.workspace import WorkspaceRequest, define
from trainway.launch.kubernetes import Kind, KubernetesOptions, render_documents
from trainway.launch.kubernetes.watch import logs
from trainway.launch.registry.connections import registry_of
from trainway.launch.runs.outputs import copy_outputs
from trainway.launch.target.wanted_lines import WantedLines
from trainway.spec.errors import UsageError
from trainway.spec.handoff_names import NODE_PATH

GROUPS = [{"name": "train", "instance_type": "m7i.2xlarge", "count": 2}]
STORAGE: dict[str, Any] = {"lustre": None}
PLATFORM = platform_of(node_groups=GROUPS, teams=[], kubernetes=OPERATORS, storage=STORAGE)
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}
STEPS = 40


def job_keys(checkpoints: str | None, train: str) -> dict[str, Any]:
    where = {} if checkpoints is None else {"location": checkpoints}
    return {
        "data": {"train": train, "sequence_length": 64},
        "batch": {"global": 8, "micro": 2},
        "precision": "fp32",
        "steps": STEPS,
        "checkpoint": {"every": 10, **where},
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("corpus")
    options = ["--corpus", "python-stdlib", "--limit-bytes", "400000", "--vocabulary", "512"]
    subprocess.run([sys.executable, "-m", "training.prepare", *options, "--out", str(root)], check=True, cwd=ROOT)
    return root


@pytest.fixture
def s3(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of the S3 that has the platform's bucket, with the corpus in it."""
    with moto_server() as endpoint:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": endpoint}.items():
            monkeypatch.setenv(name, value)
        make: Any = boto3.client
        client = make("s3", region_name=PLATFORM.region)
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": PLATFORM.region})
        for file in corpus.iterdir():
            client.upload_file(str(file), BUCKET, f"corpus/small/{file.name}")
        yield client


class Run:
    """A run of two nodes as processes of this machine. Each pod has an empty disk in the place of its volume."""

    def __init__(self, directory: Path, kind: Kind) -> None:
        hand_off = hand_off_of(PLATFORM)
        self.request = request_on(hand_off, name="small", model="tiny", **job_keys(None, "s3:/corpus/small"))
        self.config_map, self.job = render_documents(self.request, CATALOGUE, KubernetesOptions(kind=kind))
        (self.template, *_) = pods_of(self.job)
        self.directory, self.started = directory, list[subprocess.Popen[str]]()
        self.port = free_port()

    def start(self) -> list[subprocess.Popen[str]]:
        """Start both pods on new disks."""
        return [self._pod(index) for index in range(2)]

    def _pod(self, index: int) -> subprocess.Popen[str]:
        home = self.directory / f"pod-{len(self.started)}"
        (home / "files").mkdir(parents=True)
        for name, text in self.config_map["data"].items():
            (home / "files" / name).write_text(text)
        (container,) = self.template["spec"]["containers"]
        (disk,) = [each for each in self.template["spec"]["volumes"] if each["name"] == "node-disk"]
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == "node-disk"]
        assert disk["emptyDir"] == {} and mount["mountPath"] == NODE_PATH

        def here(text: str) -> str:
            return text.replace(NODE_PATH, str(home / "disk")).replace("/etc/trainway", str(home / "files"))

        environment = resolved(container["env"], Pod(index, f"small-{len(self.started)}-{index}", "localhost"))
        told = {name: here(value) for name, value in environment.items()}
        told |= {"PET_RDZV_ENDPOINT": f"localhost:{self.port}", "TRAINWAY_RUN_FILES_SECONDS": "0.5", "HOME": str(home)}
        told |= {"PET_LOCAL_ADDR": "localhost", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        del told["TRAINWAY_METRICS"]
        kept = ("AWS_ENDPOINT_URL", *KEYS)
        process = subprocess.Popen(
            [here(expanded(word, environment)) for word in container["command"]],
            env={**{name: os.environ[name] for name in kept}, "PATH": path(), **told},
            stdout=(home / "said").open("w"),
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def said(self) -> str:
        """Return the output of both pods."""
        files = sorted(self.directory.glob("pod-*/said"))
        return "\n".join(f"--- {file.parent.name}\n{file.read_text()[-3000:]}" for file in files)

    def kill(self) -> None:
        """Kill both nodes at once with all their processes, as a power failure does."""
        for process in self.started:
            for pid in (process.pid, *descendants(process.pid)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.wait()


def path() -> str:
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found = [pid]
    for parent in found:
        found += [child for child, of in parents if of == parent]
    return found[1:]


def events(text: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.decode().splitlines() if line.endswith("}")]


def in_bucket(s3: Any, prefix: str) -> dict[str, bytes]:
    """Return the objects below a prefix by their keys."""
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())
    return {each["Key"]: s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read() for each in found}


@pytest.mark.exhaustive
def test_a_run_with_disks_of_its_nodes_only_is_killed_and_resumes_from_s3(
    s3: Any, corpus: Path, tmp_path: Path
) -> None:
    run = Run(tmp_path / "cluster", "PyTorchJob")
    metrics = f"{run.request.on_nodes().paths.path}/metrics.jsonl"
    try:
        run.start()
        end = time.monotonic() + 300
        while not any(each["event"] == "step" and each["step"] >= 15 for each in metrics_of(s3, metrics)):
            assert time.monotonic() < end and all(each.poll() is None for each in run.started), run.said()
            time.sleep(0.2)
        run.kill()
        again = run.start()
        assert [each.wait(timeout=1800) for each in again] == [0, 0], run.said()
    finally:
        run.kill()

    told = metrics_of(s3, metrics)
    starts = [each.get("resumed_from") for each in told if each["event"] == "start"]
    assert len(starts) == 2 and starts[1] in (10, 20, 30)
    assert told[-1]["event"] == "end" and told[-1]["loss_hex"] == loss_here(corpus, tmp_path)
    assert any(key.startswith("checkpoints/small/") for key in in_bucket(s3, "checkpoints/"))

    # From another machine: the state, the logs of the nodes that were killed, and everything else that the run wrote.
    state = registry_of(hand_off_of(PLATFORM)).state(None, run.request.run)
    assert state and (state.state, state.step) == ("succeeded", STEPS)
    elsewhere = tmp_path / "elsewhere"
    copy_outputs(hand_off_of(PLATFORM), run.request.run, elsewhere)
    assert {each.name for each in (elsewhere / "logs").iterdir()} == {
        f"small-{n}-{i}" for n, i in ((0, 0), (1, 1), (2, 0), (3, 1))
    }
    assert (elsewhere / "metrics.jsonl").read_bytes() == in_bucket(s3, metrics)[metrics]


def metrics_of(s3: Any, key: str) -> list[dict[str, Any]]:
    return events(in_bucket(s3, key).get(key, b""))


def loss_here(corpus: Path, directory: Path) -> str:
    """Run the same job on this machine with two uninterrupted processes, and return its final loss."""
    here = directory / "here"
    here.mkdir()
    job = write_job(here, **job_keys(str(here / "checkpoints"), str(corpus)))
    options = [f"--run={here / 'run'}", "--processes=2"]
    subprocess.run([sys.executable, "-m", "trainway.cli", "launch", str(job), *options], check=True, cwd=ROOT)
    return str(events((here / "run/metrics.jsonl").read_bytes())[-1]["loss_hex"])


@pytest.mark.parametrize("kind", ("MPIJob", "RayJob"))
def test_kinds_whose_nodes_share_files_are_refused(kind: Kind) -> None:
    run = {"command": ["python3", "main.py"]}
    request = request_on(hand_off_of(PLATFORM), run=run)
    with pytest.raises(UsageError, match=r"has no file system.*\n?.*use --kind JobSet"):
        render_documents(request, CATALOGUE, KubernetesOptions(kind=kind))


@pytest.mark.parametrize(
    ("keys", "instead"),
    [
        ({"data": {"train": "fsx:/corpus/web", "sequence_length": 64}}, "s3:/corpus/web"),
        ({"run": {"command": ["true"], "outputs": "fsx:/outputs"}}, "s3:/outputs"),
        ({"run": {"command": ["true"], "environment": {"HF_HOME": "fsx:/hf"}}}, "s3:/hf"),
        ({"run": {"command": ["true"], "inputs": {"web": "fsx:/corpus/web"}}}, "s3:/corpus/web"),
    ],
)
def test_locations_on_the_file_system_are_refused(keys: dict[str, Any], instead: str) -> None:
    request = request_on(hand_off_of(PLATFORM), **keys)
    with pytest.raises(UsageError, match=f"(?s)`storage.lustre` of its platform file is null.*write {instead}"):
        render_documents(request, CATALOGUE, KubernetesOptions(kind="JobSet"))


def test_logs_of_earlier_attempts_are_fetched_from_s3() -> None:
    handle = {"name": "small-1", "logs": f"s3://{BUCKET}/runs/small-1/logs"}
    with pytest.raises(UsageError, match=rf"below s3://{BUCKET}/runs/small-1/logs; `trainway copy small-1 --only"):
        next(logs(handle, follow=False, wanted=WantedLines(attempt=1)))


def test_a_workspace_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(UsageError, match=r"(?s)no workspaces.*home directory.*storage.lustre"):
        define(hand_off_of(PLATFORM), lambda _: "image", CATALOGUE, WorkspaceRequest("ada"))
