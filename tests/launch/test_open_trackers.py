"""A `run:` program that resumes is the same run in its trackers, and a tracker that does not work stops no program."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.launch.foreign import write_foreign_job
from tests.launch.mlflow_server import mlflow_server
from tests.launch.test_start_program import Started
from tests.launch.test_trackers import foreign_program
from tests.training.test_trackers import comet_steps, wandb_records
from trainway.launch.job_file.programs import load_program
from trainway.launch.program.program import Program

# The imports of the trackers take most of the time.
pytestmark = pytest.mark.exhaustive

TO_MLFLOW = "import mlflow, sys\nwith mlflow.start_run():\n    mlflow.log_metric('loss', 1.0, step=int(sys.argv[1]))\n"
MANY_TO_MLFLOW = """
import mlflow
mlflow.start_run()
for step in range(40):
    mlflow.log_metric("loss", 1.0, step=step)
print("all")
"""
TO_WANDB = "import wandb\nrun = wandb.init()\nrun.log({'loss': 0.5}, step=1)\nrun.finish()\n"
TO_COMET = "import comet_ml\nrun = comet_ml.start()\nrun.log_metrics({'loss': 0.5}, step=1)\nrun.end()\n"


def started(directory: Path, trackers: dict[str, Any], code: str, *words: str, **environment: str) -> Started:
    """Start a program with trackers on the first node of the run `first`, as a target does."""
    return on_node(foreign_program(directory, **trackers), directory, code, *words, **environment)


def on_node(program: Program, directory: Path, code: str, *words: str, **environment: str) -> Started:
    """Start Python code with the options and the variables of a program."""
    options = [word for word in program.started_by or () if not word.startswith("--secret")]
    told = {"HOME": str(directory), "WANDB_SILENT": "true", **program.variables("first", PurePosixPath(directory), {})}
    arguments = (*options, "--", sys.executable, "-c", code, *words)
    return Started(directory, *arguments, **{**told, **environment})  # type: ignore[arg-type]


@contextmanager
def refusing() -> Iterator[str]:
    """The address of a port at which nothing listens, and which nothing else gets."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def test_the_attempts_of_a_program_are_one_run_of_mlflow(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    trackers = {"mlflow": {"tracking_uri": uri, "experiment": "llamas"}}
    for step in ("1", "2"):
        status, said = started(tmp_path, trackers, TO_MLFLOW, step).ends()
        assert status == 0 and "does not work" not in said, said
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("llamas")
    assert experiment
    (run,) = client.search_runs([experiment.experiment_id])
    assert [each.step for each in client.get_metric_history(run.info.run_id, "loss")] == [1, 2]
    assert (run.data.tags["trainway.run"], run.info.run_name, run.info.status) == ("first", "first", "FINISHED")


def test_an_mlflow_that_refuses_is_replaced_by_files(tmp_path: Path) -> None:
    with refusing() as uri:
        status, said = started(tmp_path, {"mlflow": {"tracking_uri": uri}}, TO_MLFLOW, "7").ends()
    assert status == 0, said
    assert "trainway: warning: trackers.mlflow does not work: MlflowException" in said
    environment = os.environ | {"MLFLOW_ALLOW_FILE_STORE": "true"}
    code = (
        "import sys; from mlflow import MlflowClient; client = MlflowClient(sys.argv[1])\n"
        "runs = client.search_runs([client.get_experiment_by_name(sys.argv[2]).experiment_id])\n"
        "print([each.step for run in runs for each in client.get_metric_history(run.info.run_id, 'loss')])"
    )
    name = foreign_program(tmp_path, mlflow={"tracking_uri": "http://x.example.com"}).name
    command = [sys.executable, "-c", code, (tmp_path / "trackers/mlflow").as_uri(), name]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "[7]\n"


def test_an_mlflow_that_fails_later_does_not_stop_the_program(tmp_path: Path) -> None:
    with mlflow_server() as server:
        server.most = 8
        trackers = {"mlflow": {"tracking_uri": server.uri, "experiment": "llamas"}}
        process = started(tmp_path, trackers, MANY_TO_MLFLOW).process
        output, said = process.communicate(timeout=300)
    assert (process.returncode, output) == (0, "all\n"), said
    assert len(server.headers) > server.most, "the server did not fail, so nothing is shown"


def test_an_mlflow_that_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        trackers = {"mlflow": {"tracking_uri": f"http://127.0.0.1:{server.getsockname()[1]}"}}
        environment = {"TRAINWAY_TRACKER_SECONDS": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "600"}
        status, said = started(tmp_path, trackers, TO_MLFLOW, "7", **environment).ends()
    assert status == 0 and "trackers.mlflow does not work: it did not answer in time" in said


def test_the_attempts_of_a_program_are_one_run_of_an_mlflow_app_of_sagemaker(tmp_path: Path) -> None:
    pytest.importorskip("sagemaker_mlflow")
    app = "arn:aws:sagemaker:us-west-2:123456789012:mlflow-app/app-ABC"
    with mlflow_server() as server:
        role = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-west-2"}
        for step in ("1", "2"):
            trackers = {"mlflow": {"tracking_uri": app, "experiment": "llamas"}}
            environment = {**role, "SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT": server.uri}
            status, said = started(tmp_path, trackers, TO_MLFLOW, step, **environment).ends()
            assert status == 0 and "does not work" not in said, said
        assert list(server.steps("loss").values()) == [[1, 2]]
        assert {each.get("x-sm-mlflow-app-arn") for each in server.headers} == {app}
        assert all(each["Authorization"].startswith("AWS4-HMAC-SHA256") for each in server.headers)


TO_TENSORBOARD = """
from transformers.integrations import TensorBoardCallback
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter(TensorBoardCallback().logging_dir) as board:
    board.add_scalar("loss", 0.5, 3)
"""


def test_the_files_of_tensorboard_are_where_the_starter_reads_them(tmp_path: Path) -> None:
    program = load_program(write_foreign_job(tmp_path, metrics="tensorboard"))
    status, said = on_node(program, tmp_path, TO_TENSORBOARD).ends()
    assert status == 0, said
    (file,) = (tmp_path / "outputs/tensorboard").iterdir()
    assert file.name.startswith("events.out.tfevents")
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(row["step"], row["loss"]) for row in rows if row["event"] == "metrics"] == [(3, 0.5)]


def test_a_wandb_that_refuses_is_replaced_by_files_of_the_same_run(tmp_path: Path) -> None:
    with refusing() as address:
        trackers = {"wandb": {"base_url": address}}
        status, said = started(tmp_path, trackers, TO_WANDB, WANDB_API_KEY="0" * 40).ends()
    assert status == 0, said
    assert "trainway: warning: trackers.wandb does not work: CommError" in said
    (file,) = (tmp_path / "trackers/wandb").rglob("offline-run-*/*.wandb")
    records = list(wandb_records(file))
    assert {each.run.run_id for each in records if each.WhichOneof("record_type") == "run"} == {"first"}
    assert [each.history.step.num for each in records if each.WhichOneof("record_type") == "history"] == [1]


def test_a_comet_that_refuses_is_replaced_by_files_of_the_same_experiment(tmp_path: Path) -> None:
    pytest.importorskip("comet_ml")
    with refusing() as address:
        trackers = {"comet": {"base_url": address, "workspace": "lab"}}
        status, said = started(tmp_path, trackers, TO_COMET, COMET_API_KEY="0" * 25).ends()
    assert status == 0, said
    assert "trainway: warning: trackers.comet does not work: ConnectionError" in said
    key = foreign_program(tmp_path, comet={}).variables("first", PurePosixPath(tmp_path), {})["COMET_EXPERIMENT_KEY"]
    assert comet_steps(tmp_path / "trackers/comet") == {key: [1]}
