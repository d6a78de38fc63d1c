"""What a rendered request starts really trains, on one host and on two, to the loss that this machine comes to."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.launch.conftest import write_job
from tests.launch.sagemaker.containers import ROOT, containers, missing
from tests.launch.sagemaker.requests import CATALOGUE, on_sagemaker, request
from trainway.launch.code import pack
from trainway.launch.sagemaker import SageMakerOptions, render_request
from trainway.spec.handoff import HandOff

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")
BATCH = {"global": 8, "micro": 2}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("corpus")
    options = ["--corpus", "python-stdlib", "--limit-bytes", "400000", "--vocabulary", "512", "--out", str(out)]
    subprocess.run([sys.executable, "-m", "training.prepare", *options], check=True, cwd=ROOT)
    return out


def last_event(run: Path) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    return event


def loss_here(corpus: Path, directory: Path, processes: int) -> dict[str, Any]:
    """The last event of the same job on this machine."""
    directory.mkdir()
    job = write_job(directory, batch=BATCH, data=data(str(corpus)), checkpoint=checkpoint(str(directory / "ckpt")))
    options = [f"--run={directory / 'run'}", f"--processes={processes}"]
    subprocess.run([sys.executable, "-m", "trainway.cli", "launch", str(job), *options], check=True, cwd=ROOT)
    return last_event(directory / "run")


def data(train: str) -> dict[str, Any]:
    return {"train": train, "sequence_length": 64}


def checkpoint(location: str) -> dict[str, Any]:
    return {"every": 4, "keep": 2, "location": location}


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
    (tmp_path / "channels/job").mkdir()
    (tmp_path / "channels/job/job.yaml").write_text(launch.job_text)
    job = render_request(launch, CATALOGUE, SageMakerOptions(data="fsx"))
    with containers(job, tmp_path) as hosts:
        said = [host.communicate(timeout=200)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], "\n".join(said)[-6000:]
    there, here = last_event(file_system / "runs/small-1"), loss_here(corpus, tmp_path / "here", 2)
    assert there["event"] == here["event"] == "end"
    assert (there["step"], there["loss_hex"]) == (here["step"], here["loss_hex"])
    assert "[default0]:step=12/12 " in said[0] and "step=12/12 " not in said[1]
    assert {log.name for log in (file_system / "runs/small-1/logs").iterdir()} == {"algo-1", "algo-2"}
    assert list((file_system / "checkpoints/small").glob("step-*/.metadata"))


def test_one_host_trains_from_its_channels_with_synced_code_and_saves_itself_when_it_is_told_to_stop(
    corpus: Path, tmp_path: Path, hand_off: HandOff
) -> None:
    changes: dict[str, Any] = {"batch": BATCH, "data": data("s3:/corpus/small"), "steps": 5000}
    launch = request(
        tmp_path,
        on_sagemaker(hand_off, instance_type="m7i.8xlarge"),
        checkpoint={"every": 5000, "location": "/opt/ml/checkpoints/saved"},
        **changes,
    )
    shutil.copytree(corpus, tmp_path / "channels/data-0")
    (tmp_path / "channels/job").mkdir()
    (tmp_path / "channels/job/job.yaml").write_text(launch.job_text)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sitecustomize.py").write_text("print('code of mine', flush=True)\n")
    archive, digest = pack(tmp_path / "mine")
    (tmp_path / "channels/code").mkdir()
    (tmp_path / f"channels/code/{digest}.tar.gz").write_bytes(archive)
    code = f"/opt/ml/input/data/code/{digest}.tar.gz"
    job = render_request(replace(launch, code=code), CATALOGUE, SageMakerOptions(data="file"))
    before = []
    with containers(job, tmp_path) as (host,):
        assert host.stdout is not None
        for line in host.stdout:
            before.append(line)
            if "step=3/" in line:
                break
        host.send_signal(signal.SIGTERM)
        said = host.communicate(timeout=100)[0]
    assert "[default0]:code of mine\n" in before, "synced code comes before the image's"
    assert host.returncode != 0, "a run that was stopped is not done"
    assert list((tmp_path / "checkpoints/saved").glob("step-*/.metadata")), said[-6000:]
    assert last_event(tmp_path / "checkpoints")["event"] != "start"
    assert yaml.safe_load((tmp_path / "channels/job/job.yaml").read_text())["data"]["train"] == "s3:/corpus/small"
