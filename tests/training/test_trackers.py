"""A resumed run is one run in its tracker, and a tracker that fails or hangs does not change the run."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launch.mlflow_server import mlflow_server
from tests.training.torchrun_server import Started
from training.config import Job
from training.config.trackers import Trackers
from training.observe.tracker_process import read_secret


# More than five CPU seconds, of which the imports of both trackers take most.
@pytest.mark.exhaustive
def test_a_run_that_is_killed_and_resumed_is_one_run_of_mlflow_and_of_wandb(
    launch: Any, job: dict[str, Any], tmp_path: Path
) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    document = job | {
        "trackers": {"mlflow": {"tracking_uri": uri, "experiment": "llamas"}, "wandb": {"mode": "offline"}},
        "evaluation": {"every": 4, "samples": 4, "shards": 1},
    }
    # In step 8: step 6 is in the metrics, and the newest checkpoint is of step 4.
    faults = [{"samples": [56, 63], "rank": rank, "kind": "kill"} for rank in (0, 1)]
    run = launch(document, 2, module="tests.training.faulty_train", FAULTS=json.dumps(faults))
    run.process.communicate()
    assert run.process.returncode != 0
    again = launch(document, 2, TRAINWAY_TRACKER_SECONDS="120")
    output = again.finish()
    assert "trackers" not in output, output

    steps = [event["step"] for event in run.events("step")]
    assert set(steps) == set(range(1, 17))
    assert len(steps) > 16, "the run took no step again, so nothing is shown"

    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("llamas")
    assert experiment
    (tracked,) = client.search_runs([experiment.experiment_id])
    losses = client.get_metric_history(tracked.info.run_id, "loss")
    assert [each.step for each in losses] == list(range(1, 17))
    by_step = {event["step"]: event["loss"] for event in run.events("step")}
    assert [each.value for each in losses] == [by_step[step] for step in range(1, 17)]
    assert [each.step for each in client.get_metric_history(tracked.info.run_id, "evaluation/loss")] == [4, 8, 12, 16]
    assert tracked.info.status == "FINISHED"
    assert (tracked.data.tags["trainway.run"], tracked.data.params["model"]) == ("run", "tiny")

    files = sorted((run.directory / "trackers/wandb").rglob("*.wandb"))
    assert len(files) == 2, "one for each attempt"
    records = [record for file in files for record in wandb_records(file)]
    assert {record.run.run_id for record in records if record.WhichOneof("record_type") == "run"} == {"run"}
    times = Counter(record.history.step.num for record in records if record.WhichOneof("record_type") == "history")
    assert times == dict.fromkeys(range(1, 17), 1)


def wandb_records(file: Path) -> Iterator[Any]:
    """The records of a run's file, whose format is that of LevelDB's log behind seven bytes.

    https://github.com/google/leveldb/blob/main/doc/log_format.md (read 2026-11-27)
    """
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

    content, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, size, kind = struct.unpack("<IHB", content[at : at + 7])
        whole += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def comet_steps(directory: Path) -> dict[str, list[int]]:
    """Return the steps in the archives of offline experiments, by the experiments' keys."""
    found: dict[str, list[int]] = {}
    for file in sorted(directory.glob("*.zip")):
        with zipfile.ZipFile(file) as archive:
            key = json.loads(archive.read("experiment.json"))["offline_id"]
            lines = map(json.loads, archive.read("messages.json").decode().splitlines())
            metrics = [line["payload"]["metric"] for line in lines if line["type"] == "metric_msg"]
        found.setdefault(key, []).extend(each["step"] for each in metrics if each["metricName"] == "loss")
    return found


def write_attempt(run: Path, steps: range, resumed_from: int | None) -> None:
    """Write what an attempt of a run writes into metrics.jsonl."""
    start = {"event": "start", "time": 1.0, "model": "tiny", "resumed_from": resumed_from}
    rows = [{"event": "step", "step": step, "time": 1.0, "loss": 1 / step, "breakdown": {}} for step in steps]
    with (run / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in (start, *rows))


def track(tracker: str, run: Path, section: dict[str, Any], **environment: str) -> str:
    """Let a tracker's process send the metrics of a run that has ended, and return what it says."""
    told = Trackers.model_validate({tracker: section}).environment("tiny", "first")
    command = [sys.executable, "-m", "training.observe.tracker_process", tracker, str(run)]
    everything = os.environ | told | {"TRAINWAY_RUN_NAME": "first"} | environment
    done = subprocess.run(command, input="succeeded", env=everything, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.exhaustive
def test_both_attempts_of_a_run_are_one_experiment_of_comet(tmp_path: Path) -> None:
    pytest.importorskip("comet_ml")
    for steps, resumed_from in ((range(1, 7), None), (range(5, 9), 4)):
        write_attempt(tmp_path, steps, resumed_from)
        assert track("comet", tmp_path, {"mode": "offline"}) == ""
    found = comet_steps(tmp_path / "trackers/comet")
    assert len(found) == 1 and sorted(*found.values()) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.exhaustive
def test_both_attempts_of_a_run_are_one_run_of_an_mlflow_app_of_sagemaker(tmp_path: Path) -> None:
    pytest.importorskip("sagemaker_mlflow")
    app = "arn:aws:sagemaker:us-west-2:123456789012:mlflow-app/app-ABC"
    with mlflow_server() as server:
        for steps, resumed_from in ((range(1, 7), None), (range(5, 9), 4)):
            write_attempt(tmp_path, steps, resumed_from)
            environment = {"SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT": server.uri, "AWS_REGION": "us-west-2"}
            assert track("mlflow", tmp_path, {"tracking_uri": app}, **environment) == ""
        assert list(server.steps("loss").values()) == [[1, 2, 3, 4, 5, 6, 7, 8]]
        assert {each.get("x-sm-mlflow-app-arn") for each in server.headers} == {app}


@pytest.mark.exhaustive
def test_a_tracker_that_never_answers_holds_up_no_run_and_says_what_it_did_not_send(
    launch: Any, job: dict[str, Any]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        run = launch(
            job | {"trackers": {"mlflow": {"tracking_uri": uri}}},
            1,
            MLFLOW_HTTP_REQUEST_TIMEOUT="600",
            TRAINWAY_TRACKER_SECONDS="1",
        )
        output = run.finish()
    assert "end step=16/16" in output
    assert "warning: trackers.mlflow: 16 steps were not sent. They are in" in output


REFUSED = "the metrics cannot be sent, and are tried again"


def test_a_tracker_that_refuses_is_told_once(launch: Any, job: dict[str, Any]) -> None:
    # A port that a socket has, and does not listen at, refuses connections.
    with socket.socket() as refuses:
        refuses.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{refuses.getsockname()[1]}"
        # On a busy machine, a job of some steps would end before the process of the tracker has imported MLflow.
        document = job | {"steps": 100_000, "trackers": {"mlflow": {"tracking_uri": uri}}}
        run = launch(document, 1, TRAINWAY_TRACKER_SECONDS="5")
        readline = run.process.readline if isinstance(run.process, Started) else run.process.stdout.readline
        output = ""
        while REFUSED not in output:
            line = readline()
            assert line, output
            output += line
        os.kill(run.workers()[0], signal.SIGTERM)
        output += "".join(iter(readline, ""))
    assert "end step=" in output
    assert output.count(REFUSED) == 1, output


def test_an_absent_package_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "comet_ml.py").write_text("raise ImportError(\"No module named 'comet_ml'\")\n")
    command = [sys.executable, "-m", "training.observe.tracker_process", "comet", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "No module named 'comet_ml'" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_key_of_a_secret_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3
    from moto import mock_aws

    monkeypatch.setenv("AWS_REGION", "us-west-2")
    with mock_aws():
        arn = boto3.client("secretsmanager", "us-west-2").create_secret(
            Name="trackers", SecretString=json.dumps({"wandb": "of-the-key"})
        )["ARN"]
        assert read_secret("trackers#wandb") == read_secret(f"{arn}#wandb") == "of-the-key"


@pytest.mark.parametrize(
    ("trackers", "sentence"),
    [
        ({"mlflow": {"tracking_uri": "file:///runs"}}, "no tracking URI that a node can use"),
        ({"mlflow": {"tracking_uri": "https://me:word@mlflow.example.com"}}, "everybody who sees the run"),
        ({"wandb": {"secret": "0123456789abcdef0123456789abcdef01234567"}}, "no name of a secret"),
        ({"comet": {"base_url": "comet.example.com"}}, "no address of a server"),
        ({"neptune": {}}, "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_tracker_is_refused(trackers: dict[str, Any], sentence: str, job: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=sentence):
        Job.model_validate(job | {"trackers": trackers})
