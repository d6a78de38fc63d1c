"""What a rendered request starts really trains, on one host and on two, to the loss that this machine comes to."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
import yaml

from tests.command_line import run_trainway
from tests.launch.conftest import BUCKET, write_job
from tests.launch.foreign import SAVES, write_foreign_job
from tests.launch.planted_faults import FAULTS
from tests.launch.sagemaker.containers import ROOT, containers, missing
from tests.launch.sagemaker.requests import CATALOGUE, IMAGE, on_sagemaker, request
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.moto_server import moto_server
from tests.representatives import with_representatives
from training.data.corpus import python_standard_library
from training.prepare import prepare
from trainway.launch.job_file.programs import load_program
from trainway.launch.node.exit_statuses import NOT_FOUND
from trainway.launch.node.first_cause import first_cause
from trainway.launch.node.job_user import JOB_USER
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.launch.sagemaker import SageMakerOptions, render_request
from trainway.launch.sagemaker.channels import host_files, on_hosts
from trainway.launch.starting.code import pack
from trainway.spec.handoff import HandOff

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")
BATCH = {"global": 8, "micro": 2}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("corpus")
    prepare(python_standard_library(limit_bytes=400_000), str(out), vocabulary=512)
    # pytest's own directories are closed to other users. Those of a channel are not.
    out.chmod(0o755)
    return out


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[int, Any]]:
    """An S3 with the platform's bucket: its port, and a client."""
    with moto_server() as endpoint:
        make: Any = boto3.client
        client = make("s3", region_name="us-east-1", endpoint_url=endpoint)
        client.create_bucket(Bucket=BUCKET)
        port = urlsplit(endpoint).port
        assert port is not None
        yield port, client


def in_bucket(client: Any, run: str) -> dict[str, bytes]:
    """The files of a run in the bucket."""
    found = client.list_objects_v2(Bucket=BUCKET, Prefix=f"runs/{run}/").get("Contents", [])
    return {
        each["Key"].removeprefix(f"runs/{run}/"): client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read()
        for each in found
    }


def write_channel(directory: Path, launch: Request) -> None:
    """Write the channel of the job file, as a launch uploads it."""
    (directory / "channels/job").mkdir(parents=True)
    for name, text in host_files(on_hosts(launch)).items():
        (directory / "channels/job" / name).write_text(text)


def last_event(run: Path) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    return event


def loss_here(corpus: Path, directory: Path, processes: int) -> dict[str, Any]:
    """The last event of the same job on this machine."""
    directory.mkdir()
    job = write_job(directory, batch=BATCH, data=data(str(corpus)), checkpoint=checkpoint(str(directory / "ckpt")))
    options = [f"--run={directory / 'run'}", f"--processes={processes}"]
    ran = run_trainway("launch", str(job), *options, directory=ROOT)
    assert ran.returncode == 0, ran.stderr
    return last_event(directory / "run")


def data(train: str) -> dict[str, Any]:
    return {"train": train, "sequence_length": 64}


def checkpoint(location: str) -> dict[str, Any]:
    return {"every": 4, "keep": 2, "location": location}


@pytest.mark.exhaustive
def test_two_hosts_find_each_other_and_train_from_the_file_system(
    corpus: Path, tmp_path: Path, hand_off: HandOff
) -> None:
    launch = request(
        tmp_path,
        on_sagemaker(hand_off, instance_type="m7i.8xlarge"),
        nodes=2,
        batch=BATCH,
        data=data("fsx:/corpus/small"),
        checkpoint=checkpoint("fsx:/checkpoints/small"),
    )
    file_system = tmp_path / "channels/fsx"
    shutil.copytree(corpus, file_system / "corpus/small")
    # On the platform's file system, jobs of other targets write there as the same user.
    (file_system / "checkpoints").mkdir()
    os.chown(file_system / "checkpoints", JOB_USER, JOB_USER)
    write_channel(tmp_path, launch)
    job = render_request(launch, CATALOGUE, SageMakerOptions(data="fsx"))
    with containers(job, tmp_path) as hosts:
        said = [host.communicate(timeout=1800)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], "\n".join(said)[-6000:]
    there, here = last_event(file_system / "runs/small-1"), loss_here(corpus, tmp_path / "here", 2)
    assert there["event"] == here["event"] == "end"
    assert (there["step"], there["loss_hex"]) == (here["step"], here["loss_hex"])
    assert "[default0]:step=12/12 " in said[0] and "step=12/12 " not in said[1]
    assert {log.name for log in (file_system / "runs/small-1/logs").iterdir()} == {"algo-1", "algo-2"}
    assert list((file_system / "checkpoints/small").glob("step-*/.metadata"))


@pytest.mark.exhaustive
def test_one_host_trains_from_its_channels_with_synced_code_and_saves_itself_when_it_is_told_to_stop(
    corpus: Path, tmp_path: Path, hand_off: HandOff, s3: tuple[int, Any]
) -> None:
    changes: dict[str, Any] = {"batch": BATCH, "data": data("s3:/corpus/small"), "steps": 5000}
    launch = request(
        tmp_path,
        on_sagemaker(hand_off, instance_type="m7i.8xlarge"),
        checkpoint={"every": 5000, "location": "/opt/ml/checkpoints/saved"},
        **changes,
    )
    shutil.copytree(corpus, tmp_path / "channels/data-0")
    write_channel(tmp_path, launch)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sitecustomize.py").write_text("print('code of mine', flush=True)\n")
    archive, digest = pack(tmp_path / "mine")
    (tmp_path / "channels/code").mkdir()
    (tmp_path / f"channels/code/{digest}.tar.gz").write_bytes(archive)
    code = f"/opt/ml/input/data/code/{digest}.tar.gz"
    # What SageMaker streams, the job copies to its disk.
    job = render_request(replace(launch, code=code), CATALOGUE, SageMakerOptions(data="fast-file"))
    job["Environment"]["XDG_CACHE_HOME"] = "/opt/ml/output/cache"
    before = []
    with containers(job, tmp_path, s3[0]) as (host,):
        assert host.stdout is not None
        for line in host.stdout:
            before.append(line)
            if "step=3/" in line:
                break
        host.send_signal(signal.SIGTERM)
        said = host.communicate(timeout=1800)[0]
    # The agent of the job prints it. The process of which the ranks are forks may print later.
    assert "code of mine\n" in before, "synced code comes before the image's"
    assert host.returncode != 0, "a run that was stopped is not done"
    kept = tmp_path / "algo-1/checkpoints"
    assert list((kept / "saved").glob("step-*/.metadata")), said[-6000:]
    assert last_event(kept)["event"] != "start"
    assert not (tmp_path / "algo-1/output/failure").exists(), "a run that was stopped has not failed"
    owners = {path.stat().st_uid for path in kept.rglob("*")}
    assert owners == {JOB_USER}, "what root left, too"
    uploaded = in_bucket(s3[1], "small-1")
    assert any(name.startswith("saved/step-") and name.endswith("/.metadata") for name in uploaded)
    assert uploaded["metrics.jsonl"] == (kept / "metrics.jsonl").read_bytes()
    copied = {path.name for path in (tmp_path / "algo-1/output/cache").rglob("*.bin")}
    assert copied, "the window of shards"
    assert yaml.safe_load((tmp_path / "channels/job/job.yaml").read_text())["data"]["train"] == "s3:/corpus/small"


@pytest.mark.exhaustive
def test_two_hosts_run_a_program_of_anybody_stop_it_and_go_on_with_its_outputs(
    tmp_path: Path, hand_off: HandOff, s3: tuple[int, Any]
) -> None:
    there = on_sagemaker(hand_off, instance_type="m7i.8xlarge")
    program = load_program(write_foreign_job(tmp_path, steps=5000, nodes=2))
    archive, digest = pack(tmp_path / "code")
    (tmp_path / "channels/code").mkdir(parents=True)
    (tmp_path / f"channels/code/{digest}.tar.gz").write_bytes(archive)
    code = f"/opt/ml/input/data/code/{digest}.tar.gz"
    launch = Request(program, "first", there, IMAGE, allocate(program, there, CATALOGUE), code)
    write_channel(tmp_path, launch)
    job = render_request(launch, CATALOGUE, SageMakerOptions(data="s3"))
    saved = tmp_path / "algo-1/checkpoints/outputs/step"
    with containers(job, tmp_path, s3[0], own_image=True) as hosts:
        wait_for("it trains", lambda: saved.exists() and int(saved.read_text()) > 2)
        for host in hosts:
            host.send_signal(signal.SIGTERM)
        said = [host.communicate(timeout=60)[0] for host in hosts]
    # 75: a run that was stopped is not done.
    assert [host.returncode for host in hosts] == [75, 75], "\n".join(said)[-6000:]
    assert all("trainway: stopped on node" in each for each in said)
    uploaded = in_bucket(s3[1], "first")
    assert {"attempts/1/node-0.json", "attempts/1/node-1.json", "metrics.jsonl"} <= uploaded.keys()
    steps = int(uploaded["outputs/step"])
    assert steps == int(saved.read_text()) > 2

    # Another attempt has other hosts, on which nothing is left. The bucket has it.
    shutil.rmtree(tmp_path / "algo-1")
    shutil.rmtree(tmp_path / "algo-2")
    job["Environment"]["STEPS"] = str(steps + 2)
    with containers(job, tmp_path, s3[0], own_image=True) as hosts:
        said = [host.communicate(timeout=1800)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], "\n".join(said)[-6000:]
    assert f"2 ranks begin after step {steps}" in said[0]
    assert int(in_bucket(s3[1], "first")["outputs/step"]) == steps + 2


def test_the_first_cause_is_where_sagemaker_looks_for_it(
    tmp_path: Path, hand_off: HandOff, s3: tuple[int, Any]
) -> None:
    there = on_sagemaker(hand_off, instance_type="m7i.8xlarge")
    script = 'id -u; touch /tmp/mine "$TRAINWAY_OUTPUT/mine" /opt/ml/model/mine; exit 3'
    program = load_program(write_foreign_job(tmp_path, command=["sh", "-c", script]))
    launch = Request(program, "fails", there, IMAGE, allocate(program, there, CATALOGUE))
    write_channel(tmp_path, launch)
    with containers(render_request(launch, CATALOGUE), tmp_path, s3[0], own_image=True) as (host,):
        said = host.communicate(timeout=60)[0]
    assert host.returncode == 3 and said.splitlines()[0] == str(JOB_USER), said
    assert "denied" not in said, "the directories are writable"
    failure = (tmp_path / "algo-1/output/failure").read_text()
    assert failure == "sh ended with exit status 3\n"
    kept = in_bucket(s3[1], "fails")
    assert kept["attempts/1/failure"] == failure.encode()
    assert not [name for name in kept if name.startswith("logs/")], "CloudWatch has the lines of the container"


@pytest.mark.exhaustive
def test_a_job_whose_outputs_vanished_from_the_bucket_does_not_begin_anew(
    tmp_path: Path, hand_off: HandOff, s3: tuple[int, Any]
) -> None:
    there = on_sagemaker(hand_off, instance_type="m7i.8xlarge")
    program = load_program(write_foreign_job(tmp_path, code=None, command=SAVES))
    launch = Request(program, "gone", there, IMAGE, allocate(program, there, CATALOGUE))
    write_channel(tmp_path, launch)
    job, ended = render_request(launch, CATALOGUE), []
    for _ in range(2):
        with containers(job, tmp_path, s3[0], own_image=True) as (host,):
            ended.append((host.communicate(timeout=600)[0], host.returncode))
        assert "outputs/step-4/model.pt" in in_bucket(s3[1], "gone")
        shutil.rmtree(tmp_path / "algo-1")
    s3[1].delete_object(Bucket=BUCKET, Key="runs/gone/outputs/step-4/model.pt")
    with containers(job, tmp_path, s3[0], own_image=True) as (host,):
        ended.append((host.communicate(timeout=600)[0], host.returncode))
    assert [status for _, status in ended] == [0, 0, NOT_FOUND], ended
    assert "the outputs of the run are gone. Attempt 2 had 1 file" in ended[-1][0]
    assert "the outputs of the run are gone" in (tmp_path / "algo-1/output/failure").read_text()


@pytest.mark.parametrize("fault", with_representatives(FAULTS, ["out of GPU memory"]))
def test_a_host_that_cannot_succeed_says_why_where_sagemaker_looks(
    fault: str, tmp_path: Path, hand_off: HandOff, s3: tuple[int, Any]
) -> None:
    there = on_sagemaker(hand_off, instance_type="m7i.8xlarge")
    program = load_program(write_foreign_job(tmp_path, code=None, **FAULTS[fault].run))
    launch = Request(program, "bad", there, IMAGE, allocate(program, there, CATALOGUE))
    write_channel(tmp_path, launch)
    job = render_request(launch, CATALOGUE, SageMakerOptions(data="fsx"))
    with containers(job, tmp_path, s3[0], own_image=True) as (host,):
        said = host.communicate(timeout=60)[0]
    assert host.returncode == NOT_FOUND and "begun" not in said.splitlines(), said
    assert (tmp_path / "algo-1/output/failure").read_text().startswith(FAULTS[fault].why)


def test_the_rank_that_failed_first_is_the_cause(tmp_path: Path) -> None:
    for rank, (second, line) in enumerate([(5, "torch.distributed.DistBackendError: peer"), (1, "ValueError: mine")]):
        log = tmp_path / f"logs/attempt_0/{rank}/stderr.log"
        log.parent.mkdir(parents=True)
        log.write_text(f"Traceback (most recent call last):\n{line}\n")
        os.utime(log, (second, second))
    assert first_cause(tmp_path, tmp_path / "logs", 1) == "rank 1 of this host: ValueError: mine"
    assert first_cause(tmp_path, tmp_path / "absent", 9) == "the command ended with exit status 9"
    for attempt, why in (
        ("2", "the second"),
        ("10", "the tenth"),
        ("x", "of the program"),
        ("\N{SUPERSCRIPT TWO}", "?"),
    ):
        (tmp_path / "attempts" / attempt).mkdir(parents=True)
        (tmp_path / "attempts" / attempt / "failure").write_text(f"{why}\n")
    assert first_cause(tmp_path, tmp_path / "logs", 1) == "the tenth"
