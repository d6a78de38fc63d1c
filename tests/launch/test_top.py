"""`trainway top` shows the values of schedulers, records, states, and exporters, and says which values are unknown."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import urlopen

import boto3
import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.kubernetes.stand_in_api import GROUPS, Api, serving
from tests.launch.registry.launches import SAGEMAKER, of_run
from tests.prometheus import prometheus
from trainway.cli import app
from trainway.commands.live import _screen
from trainway.launch.kubernetes import gpu_use
from trainway.launch.kubernetes.context import eks_arn
from trainway.launch.kubernetes.who_shares import RUN_LABEL
from trainway.launch.local.watch import handle_of
from trainway.launch.registry.connections import ConnectedPlatform, connect, registry_of
from trainway.launch.registry.record import RunRecord, key_of
from trainway.launch.registry.state import state_key_of
from trainway.launch.runs.run_directory import now, record_submission, recorded_launch
from trainway.launch.target.cluster_state import ClusterNode, run_metrics
from trainway.launch.target.known import target_named
from trainway.launch.top.gather import Site, TopJob, _training_jobs, site_of
from trainway.manifests.chart_values import NODES_LABEL
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.handoff_names import parameter_name

EXPORTED = """# HELP trainway_run_step The newest optimizer step.
trainway_run_info{run="llama",node_rank="0",job="llama"} 1
trainway_run_step{run="llama",node_rank="0"} 40
trainway_run_steps{run="llama",node_rank="0"} 2000
trainway_run_tokens_per_second{run="llama",node_rank="0"} 812345.5
"""


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def top(*arguments: str) -> Any:
    done = CliRunner().invoke(app, ["top", "--json", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return json.loads(done.stdout)


def nvidia_smi(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (directory / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)


def test_this_machine_shows_its_runs_and_what_nvidia_smi_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, monkeypatch, "printf '90\\n10\\n[N/A]\\n'")
    run, ended = Path("runs/small"), Path("runs/ended")
    for each in (run, ended):
        each.mkdir(parents=True)
    events = [{"event": "start", "steps": 12}, {"event": "step", "step": 3, "tokens_per_second": 51.5}]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    with recorded_launch(ended, handle_of(ended), (), {}, {}) as record:
        record["exit_status"] = 0
    with recorded_launch(run, handle_of(run), (), {}, {}):
        (here,) = top()
        text = CliRunner().invoke(app, ["top"], catch_exceptions=False).stdout
    (node,), (job,) = here["nodes"], here["jobs"]
    assert (node["gpus"], node["used"], node["allocated"], here["unknown"]) == (3, 0.5, None, [])
    assert (job["name"], job["phase"], job["step"], job["tokens_per_second"]) == ("small", "running", "3/12", 51.5)
    assert job["gpus"] is None and 0 <= job["age"] < 600
    # Without a terminal the tables are printed once, each row on one line.
    assert [line.split()[:6] for line in text.splitlines() if line.startswith("small")] == [
        ["small", "local", "running", "3/12", "52", "unknown"]
    ]


@pytest.mark.parametrize("script", [None, "exit 9"])
def test_gpus_are_unknown_if_nvidia_smi_is_missing_or_fails(
    script: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script:
        nvidia_smi(tmp_path, monkeypatch, script)
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    (here,) = top()
    assert here["nodes"][0]["gpus"] is None and here["nodes"][0]["used"] is None
    assert "unknown" in here["unknown"][0]


def test_run_metrics_returns_only_the_samples_of_the_run() -> None:
    found = run_metrics(EXPORTED, "llama")
    assert found and found["trainway_run_tokens_per_second"] == 812345.5
    assert run_metrics(EXPORTED, "another") is None
    assert run_metrics("no metrics at all", "llama") is None


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setitem(GROUPS, "v1", [*GROUPS["v1"], ("nodes", "Node")])
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    with serving() as api:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "cache"))
        yield api


@pytest.fixture
def deployed(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HandOff]:
    """A platform on EKS with two teams: the run `llama` on a node, a job that waits, and a job that has ended."""
    from moto import mock_aws

    hand_off = hand_off_of(platform_named("kueue"))
    cluster = hand_off.cluster.model_copy(update={"job_kinds": ("TrainJob",)})
    hand_off = hand_off.model_copy(update={"cluster": cluster})
    api.kubeconfig(tmp_path / "kubeconfig", eks_arn(hand_off))
    for index, ready in enumerate(("True", "False")):
        status = {
            "allocatable": {"nvidia.com/gpu": "8", "cpu": "190"},
            "conditions": [{"type": "Ready", "status": ready, "message": "kubelet is silent"}],
        }
        metadata = {"name": f"ip-10-0-16-{index}", "labels": {NODES_LABEL: "train"}}
        api.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status})
    for name in ("llama", "waits", "done"):
        made = {
            "name": name,
            "namespace": "research",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-26T00:00:00Z",
        }
        ended = {"conditions": [{"type": "Complete", "status": "True"}]} if name == "done" else {}
        kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
        api.put("trainjobs", {**kind, "metadata": made, "status": ended})
    limits = {"containers": [{"name": "node", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
    api.put(
        "pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "llama-0", "namespace": "research", "labels": {RUN_LABEL: "llama"}},
            "spec": {"nodeName": "ip-10-0-16-0", **limits},
            "status": {"phase": "Running"},
        },
    )
    api.metrics["llama-0:9464"] = EXPORTED
    with mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "testing")
        region = hand_off.region
        where = {"CreateBucketConfiguration": {"LocationConstraint": region}}
        boto3.client("s3", region_name=region).create_bucket(Bucket=hand_off.bucket, **where)  # type: ignore[arg-type]
        text = hand_off.model_dump_json()
        boto3.client("ssm", region_name=region).put_parameter(
            Name=parameter_name(hand_off.platform), Value=text, Type="String", Tier="Advanced"
        )
        connect(hand_off.platform, region)
        yield hand_off


def record_run(
    hand_off: HandOff,
    name: str,
    files: dict[str, str] | None = None,
    nodes: tuple[int, str] | None = None,
    **state: Any,
) -> None:
    """Write the record of a launch and the state of its run to the registry."""
    handle = {"context": "mine", "namespace": "research", "kind": "TrainJob", "name": name, "logs": "/fsx"}
    Path(f"runs/{name}").mkdir(parents=True)
    options = {"platform_file": "platform.yaml", "target": {}}
    launch = record_submission(
        Path(f"runs/{name}"),
        "kubernetes",
        handle,
        options,
        nodes and dict(zip(("count", "instance_type"), nodes, strict=True)),
    )
    registry = registry_of(hand_off)
    registry.write(RunRecord(name, "research", "ada", now(), files or {"job.yaml": ""}, launch))
    if state:
        written = {
            "schema_version": 1,
            "state": "running",
            "attempt": 1,
            "started": 1.0,
            "written": time.time(),
            **state,
        }
        s3 = boto3.client("s3", region_name=hand_off.region)
        s3.put_object(Bucket=hand_off.bucket, Key=state_key_of("research", name), Body=json.dumps(written).encode())


def test_training_jobs_are_those_of_the_store_and_unreadable_records_are_named(deployed: HandOff) -> None:
    from moto.sagemaker.models import sagemaker_backends

    registry = registry_of(deployed)
    sagemaker = boto3.client("sagemaker", region_name=deployed.region)
    for name in ("trains", "ended"):
        record = RunRecord(name, "research", "ada", now(), {"job.yaml": ""})
        registry.write(record.taken(of_run(SAGEMAKER, name)))
        sagemaker.create_training_job(
            TrainingJobName=name,
            RoleArn="arn:aws:iam::123456789012:role/job",
            AlgorithmSpecification={"TrainingInputMode": "File"},
            OutputDataConfig={"S3OutputPath": "s3://data/outputs"},
            ResourceConfig={"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 60},
        )
        # Jobs of moto end as soon as they begin.
        job = sagemaker_backends["123456789012"][deployed.region].training_jobs[name]
        job.training_job_status, job.secondary_status = "InProgress", "Training"
    record_run(deployed, "llama", step=9)
    s3 = boto3.client("s3", region_name=deployed.region)
    for name, state in (("trains", "running"), ("ended", "failed")):
        told = {"schema_version": 1, "state": state, "attempt": 1, "started": 1.0, "written": 2.0, "step": 7}
        s3.put_object(Bucket=deployed.bucket, Key=state_key_of("research", name), Body=json.dumps(told).encode())
    s3.put_object(Bucket=deployed.bucket, Key=key_of("research", "broken"), Body=b"{")
    unknown: list[str] = []
    found = _training_jobs(registry, target_named("kubernetes"), unknown)
    assert [(each.name, each.target, each.step, each.team) for each in found] == [
        ("trains", "sagemaker", "7", "research")
    ]
    assert unknown == ["the record of the run broken is unreadable: it is not JSON"]


def only(jobs: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [each for each in jobs if each["name"] == name and each["team"] == "research"]
    return found


def test_a_kubernetes_cluster_shows_its_nodes_and_the_jobs_of_all_users(deployed: HandOff) -> None:
    record_run(deployed, "llama", step=38, steps=2000)
    _, site = top()
    assert (site["name"], site["region"], site["unknown"]) == (deployed.platform, deployed.region, [])
    busy, broken = site["nodes"]
    assert (busy["name"], busy["state"], busy["group"]) == ("ip-10-0-16-0", "ready", "train")
    assert (busy["gpus"], busy["allocated"], busy["used"]) == (8, 8, None)
    assert (broken["state"], broken["allocated"], broken["reason"]) == ("not ready", 0, "kubelet is silent")
    assert sorted(each["name"] for each in site["jobs"]) == ["llama", "waits"]
    run, waits = only(site["jobs"], "llama"), only(site["jobs"], "waits")
    assert (run["owner"], run["phase"], run["nodes"], run["gpus"]) == ("ada", "running", ["ip-10-0-16-0"], 8)
    # The exporter is newer than the state, which the run writes every half minute.
    assert (run["step"], run["tokens_per_second"]) == ("40/2000", 812345.5)
    assert run["age"] < 600
    assert (waits["owner"], waits["phase"], waits["step"], waits["gpus"]) == (None, "starting", None, None)
    assert waits["age"] > 600


def test_a_queued_run_that_can_never_start_says_what_bounds_it(deployed: HandOff, api: Api) -> None:
    instance_type = deployed.node_groups[0].instance_type
    limits = {"containers": [{"name": "node", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
    for name, nodes in (("many", 999), ("few", 1)):
        job = {"name": name, "nodes": nodes, "team": "research", "run": {"command": ["torchrun", "train.py"]}}
        record_run(deployed, name, files={"job.yaml": yaml.safe_dump(job)}, nodes=(nodes, instance_type))
        made = {"name": name, "namespace": "research", "uid": name, "creationTimestamp": "2026-11-26T00:00:00Z"}
        kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
        api.put("trainjobs", {**kind, "metadata": made, "status": {}})
        waits = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
        pod = {"name": f"{name}-0", "namespace": "research", "labels": {RUN_LABEL: name}}
        status = {"phase": "Pending", "conditions": [waits]}
        api.put("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": limits, "status": status})
    _, site = top()
    many, few = only(site["jobs"], "many"), only(site["jobs"], "few")
    assert many["phase"] == few["phase"] == "queued"
    assert many["reason"].startswith("never starts: it asks for 999 nodes, and ") and "Fix: " in many["reason"]
    assert few["reason"] == "0/2 nodes are available"


# As DCGM's exporter writes a GPU: https://github.com/NVIDIA/dcgm-exporter#quickstart (read 2026-11-27)
DCGM = """# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",UUID="GPU-{node}-{gpu}",device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",\
Hostname="{node}",DCGM_FI_DRIVER_VERSION="580.95.05",container="node",namespace="{namespace}",pod="{pod}"}} {percent}
"""
SAMPLES = (
    *(("ip-10-0-16-0", gpu, "research", "llama-0", 96) for gpu in range(6)),
    *(("ip-10-0-16-0", gpu, "research", "llama-0", 0) for gpu in (6, 7)),
    *(("ip-10-0-16-1", gpu, "", "", 0) for gpu in range(8)),
)


class Scraped(BaseHTTPRequestHandler):
    """Serve the samples of DCGM's exporters, and pass queries of the workspace on to Prometheus."""

    asked: ClassVar[list[str]] = []
    prometheus = ""

    def do_GET(self) -> None:
        names = ("node", "gpu", "namespace", "pod", "percent")
        body = "".join(DCGM.format(**dict(zip(names, each, strict=True))) for each in SAMPLES).encode()
        if self.path.startswith("/workspaces/ws-1/"):
            self.asked.append(self.headers["Authorization"])
            with urlopen(self.prometheus + self.path.removeprefix("/workspaces/ws-1"), timeout=10) as answer:
                body = answer.read()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.mark.parametrize(
    "collected",
    [
        # The test of the alias finds the workspace of both.
        pytest.param({"orchestrator": "hyperpod-eks"}, id="hyperpod-eks", marks=pytest.mark.exhaustive),
        pytest.param({"metrics_workspace": "atlas-eks"}, id="eks"),
    ],
)
def test_a_cluster_with_a_collector_shows_the_use_of_gpus_by_node_and_job_and_the_idle_ones(
    collected: dict[str, str], deployed: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_run(deployed, "llama", step=38, steps=2000)
    with_collector = deployed.model_copy(update=collected)
    where = {"Name": parameter_name(deployed.platform), "Type": "String", "Tier": "Advanced", "Overwrite": True}
    boto3.client("ssm", region_name=deployed.region).put_parameter(Value=with_collector.model_dump_json(), **where)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scraped)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with prometheus(tmp_path, server.server_port) as store:
            Scraped.prometheus = store.address
            deadline = time.monotonic() + 300
            while len(store.query("DCGM_FI_DEV_GPU_UTIL")) < len(SAMPLES) and time.monotonic() < deadline:
                time.sleep(0.1)
            workspace = f"http://127.0.0.1:{server.server_port}/workspaces/ws-1/"
            monkeypatch.setattr(gpu_use, "workspace_endpoint", lambda _: workspace)
            (site,) = top(deployed.platform)
            text = CliRunner().invoke(app, ["top", "--once", deployed.platform], catch_exceptions=False).stdout
    finally:
        server.shutdown()
        server.server_close()
    assert site["unknown"] == []
    assert [(each["used"], each["idle"]) for each in site["nodes"]] == [(pytest.approx(0.72), 2), (0, 0)]
    run, waits = only(site["jobs"], "llama"), only(site["jobs"], "waits")
    assert (run["owner"], run["used"], run["idle"], waits["used"]) == ("ada", pytest.approx(0.72), 2, None)
    assert "72%, 2 idle" in next(line for line in text.splitlines() if line.startswith("llama"))
    assert "idle: 2" in text
    signed = f"AWS4-HMAC-SHA256 Credential=testing/[0-9]{{8}}/{deployed.region}/aps/aws4_request"
    assert Scraped.asked and all(re.match(signed, each) for each in Scraped.asked)


def test_the_workspace_is_found_by_its_alias_and_a_refusal_is_told(deployed: HandOff) -> None:
    amp = boto3.client("amp", region_name=deployed.region)
    assert gpu_use.workspace_endpoint(deployed) is None
    # The hand-off of EKS names the workspace, and HyperPod's add-on has one of a known name.
    on_eks = deployed.model_copy(update={"metrics_workspace": f"{deployed.platform}-eks"})
    on_hyperpod = deployed.model_copy(update={"orchestrator": "hyperpod-eks"})
    for found, alias in ((on_eks, f"{deployed.platform}-eks"), (on_hyperpod, f"{deployed.platform}-hyperpod")):
        assert gpu_use.workspace_endpoint(found) is None
        amp.create_workspace(alias=f"{alias}-2")
        ours = amp.create_workspace(alias=alias)["workspaceId"]
        endpoint = gpu_use.workspace_endpoint(found)
        assert endpoint and ours in endpoint
    # A port that a socket has, and does not listen at, refuses connections.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(UsageError, match="the use of the GPUs is unknown") as caught:
            gpu_use.query_use(address, deployed.region)
    assert "refused" in str(caught.value) and "aps:QueryMetrics" in str(caught.value)


def test_what_a_member_may_not_see_is_shown_as_unknown(deployed: HandOff, api: Api) -> None:
    record_run(deployed, "llama", step=38, steps=2000)
    api.hidden |= {"/api/v1/pods"}
    api.metrics.clear()
    (site,) = top(deployed.platform)
    assert [each["allocated"] for each in site["nodes"]] == [None, None]
    assert any("allocated GPUs are unknown" in each and "forbidden" in each for each in site["unknown"])
    run = only(site["jobs"], "llama")
    assert (run["step"], run["tokens_per_second"]) == ("38/2000", None)
    output = CliRunner().invoke(app, ["top", "--once", deployed.platform], catch_exceptions=False).stdout
    assert "GPUs: 16, allocated: unknown, in use: unknown" in output


def test_a_job_that_has_the_name_of_a_run_elsewhere_is_not_that_run(deployed: HandOff) -> None:
    record_run(deployed, "waits", step=1, steps=2)
    registry = registry_of(deployed)
    record = registry.read("waits")
    assert record and record.launch
    other = {**record.launch, "handle": {**record.launch["handle"], "namespace": "product"}}
    registry.write(record.taken(other))
    (site,) = top(deployed.platform)
    assert only(site["jobs"], "waits")["owner"] is None and only(site["jobs"], "waits")["step"] is None


def test_a_platform_that_does_not_answer_is_shown_as_unknown() -> None:
    from moto import mock_aws

    with mock_aws():
        site = site_of(ConnectedPlatform("nowhere", "us-west-2"), None)
    assert site.nodes == () and "no platform of the name nowhere is deployed there" in site.unknown[0]


def test_a_platform_that_nobody_has_connected_to_is_refused() -> None:
    done = CliRunner().invoke(app, ["top", "--json", "nowhere"])
    assert "there is no platform nowhere" in str(done.exception)


@pytest.mark.parametrize(("columns", "lines"), [(60, 20), (100, 40)])
def test_the_text_fits_the_screen_and_counts_the_rows_that_it_leaves_out(columns: int, lines: int) -> None:
    nodes = tuple(ClusterNode(f"ip-10-0-16-{each}", "allocated", "train", 8, 8, 0.97) for each in range(200))
    jobs = tuple(TopJob(f"run-{each}", "slurm", "running", "ada", age=60.0, nodes=("n1",)) for each in range(90))
    console = Console(width=columns, height=lines, file=io.StringIO(), force_terminal=False)
    console.print(_screen([Site("atlas", "us-west-2", nodes, jobs)], lines))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= columns
    assert "GPUs: 1600" in " ".join(text.split()) and "97%" in text
    shown = sum(line.startswith("run-") for line in text.splitlines())
    assert shown > 3 and f"… and {90 - shown} more jobs" in text
    assert "more nodes" in text


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 128 + signal.SIGTERM), pytest.param(signal.SIGINT, 0, marks=pytest.mark.exhaustive)],
)
def test_the_terminal_is_restored(number: signal.Signals, status: int, tmp_path: Path) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.environ["TERM"] = "xterm-256color"
        # A shell that runs the tests in the background ignores Ctrl-C for them.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, "-m", "trainway.start", "top"])
    said, told = bytearray(), False
    while select.select([terminal], [], [], 60)[0]:
        try:
            said += os.read(terminal, 65536)
        except OSError:
            break
        if not told and b"no jobs" in said:
            told = True
            os.kill(process, number)
    else:
        os.kill(process, signal.SIGKILL)  # The process has printed nothing for a minute, and has not ended.
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == status
    before, _, after = bytes(said).partition(b"no jobs")
    # The escape sequences switch to the alternate screen and back, and hide and show the cursor.
    assert b"\x1b[?1049h" in before and b"\x1b[?25l" in before
    assert b"\x1b[?1049l" in after and b"\x1b[?25h" in after
    assert b"Traceback" not in said


def test_the_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom trainway.cli import app\n"
        "try:\n    app(['top', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'boto3', 'botocore', 'aws_cdk', 'moto'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "--once" in done.stdout and done.stdout.splitlines()[-1] == "[]"
