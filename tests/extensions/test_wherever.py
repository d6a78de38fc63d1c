"""`trainway launch --wherever` chooses among connected platforms, on an emulated AWS that has two."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from typer.testing import CliRunner, Result

from emulator import Emulator, running
from tests.launch.conftest import write_job
from tests.launch.kubernetes.platforms import hand_off_of
from tests.launch.registry.launches import KUBERNETES, of_run
from tests.launch.test_commands import EKS, SLURM, deploy
from trainway.cli import app
from trainway.launch.registry.connections import connect
from trainway.launch.registry.record import RunRecord
from trainway.launch.registry.state import state_key_of
from trainway.launch.registry.store import Registry
from trainway.spec.deployed_file import deployed_file, deployed_file_name, written
from trainway.spec.errors import UsageError
from trainway.spec.handoff_names import parameter_name
from trainway.spec.platform import Platform


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


@pytest.fixture
def home(emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person who has connected to the two platforms, in an empty directory."""
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    s3 = boto3.resource("s3", region_name="us-west-2")
    for bucket in s3.buckets.all():
        bucket.objects.all().delete()
    for platform in (EKS, SLURM):
        deploy(platform)
        in_its_own_bucket(platform)
        keep_file(platform)
        connect(platform.name, platform.region)
    return tmp_path


def in_its_own_bucket(platform: Platform) -> None:
    """Put the records of a platform's runs into a bucket of its own, as each deploy does."""
    hand_off = hand_off_of(platform).model_copy(update={"bucket": bucket_of(platform)})
    s3 = boto3.client("s3", region_name=platform.region)
    if hand_off.bucket not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket=hand_off.bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    boto3.client("ssm", region_name=platform.region).put_parameter(
        Name=parameter_name(platform.name), Type="String", Value=hand_off.model_dump_json(), Overwrite=True
    )


def bucket_of(platform: Platform) -> str:
    return f"{platform.name}-records-of-runs"


def keep_file(platform: Platform) -> None:
    boto3.client("ssm", region_name=platform.region).put_parameter(
        Name=deployed_file_name(platform.name),
        Type="String",
        Value=written(deployed_file(platform)) or "",
        Overwrite=True,
    )


def job(home: Path, **changes: Any) -> str:
    usual = {"nodes": 2, "batch": {"global": 64, "micro": 1}, "team": "research"}
    return str(write_job(home, **(usual | changes)))


def launch(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["launch", *arguments, "--wherever", "--dry-run"])


def busy(platform: Platform, run: str, *, ended: bool = False, started: datetime | None = None) -> None:
    """Record a run on two nodes of a platform."""
    registry = Registry(platform.name, platform.region, bucket_of(platform), ("research",))
    record = RunRecord(
        run=run,
        team="research",
        owner="ada",
        started=(started or datetime.now(UTC)).isoformat(),
        files={"job.yaml": "name: x\n"},
        launch=of_run(KUBERNETES, run),
    )
    registry.reserve(record)
    if ended:
        state = '{"schema_version": 1, "state": "succeeded", "attempt": 1, "started": 1.0, "written": 2.0}'
        boto3.client("s3", region_name=platform.region).put_object(
            Bucket=bucket_of(platform), Key=state_key_of("research", run), Body=state.encode()
        )


def test_a_platform_with_a_price_comes_before_one_without(home: Path) -> None:
    """Both have the nodes; EC2's price is known, and HyperPod's is not."""
    ran = launch(job(home))
    assert ran.exit_code == 0, ran.output
    assert "chosen: eks in us-west-2: 2 of 2 nodes of train are free; 2 × p5.48xlarge on demand: $110.08" in ran.stderr
    assert "slurm in us-west-2: 2 of 2 nodes of train are free; no price known for 2 × p5.48xlarge" in ran.stderr
    assert "TrainJob" in {each["kind"] for each in yaml.safe_load_all(ran.stdout)}


def test_free_nodes_come_before_a_price(home: Path) -> None:
    busy(EKS, "nightly")
    ran = launch(job(home))
    assert ran.exit_code == 0, ran.output
    assert "chosen: slurm in us-west-2: 2 of 2 nodes of train are free" in ran.stderr
    assert "eks in us-west-2: 0 of 2 nodes of train are free, 2 too few" in ran.stderr
    assert "#SBATCH --nodes=2" in ran.stdout


def test_a_run_that_ended_uses_no_nodes(home: Path) -> None:
    busy(EKS, "done", ended=True)
    busy(EKS, "forgotten", started=datetime.now(UTC) - timedelta(days=30))
    assert "chosen: eks in us-west-2: 2 of 2 nodes" in launch(job(home)).stderr


def test_a_platform_that_the_job_does_not_fit_is_named_with_the_reason(home: Path) -> None:
    one = EKS.node_groups[0].model_copy(update={"count": 1, "max_count": 1})
    deploy(
        EKS.model_copy(update={"node_groups": (one,), "teams": (EKS.teams[0].model_copy(update={"guarantee": {}}),)})
    )
    ran = launch(job(home))
    assert ran.exit_code == 0, ran.output
    assert "chosen: slurm in us-west-2" in ran.stderr
    assert "eks in us-west-2: no, because small asks for 2 nodes" in ran.stderr


def test_a_platform_whose_file_was_not_kept_is_not_chosen(home: Path) -> None:
    boto3.client("ssm", region_name="us-west-2").delete_parameter(Name=deployed_file_name("eks"))
    ran = launch(job(home))
    assert "chosen: slurm in us-west-2" in ran.stderr
    assert "eks in us-west-2: no, because" in ran.stderr and "above 8 KB" in ran.stderr


def test_a_job_that_fits_none_is_refused_with_every_reason(home: Path) -> None:
    ran = launch(job(home, nodes=64))
    assert isinstance(ran.exception, UsageError)
    assert "eks in us-west-2: no" in str(ran.exception) and "slurm in us-west-2: no" in str(ran.exception)


def test_whoever_has_connected_to_none_is_told_how(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "other"))
    ran = launch(job(home))
    assert isinstance(ran.exception, UsageError) and "`trainway connect PLATFORM" in str(ran.exception)


@pytest.mark.parametrize("flag", ["--platform=eks.yaml", "--target=slurm"])
def test_a_platform_is_chosen_once(home: Path, flag: str) -> None:
    ran = launch(job(home), flag)
    assert isinstance(ran.exception, UsageError) and "leave one of them out" in str(ran.exception)


def test_a_connected_platform_is_used_by_its_name(home: Path) -> None:
    ran = CliRunner().invoke(app, ["launch", job(home), "--target=slurm", "--platform=slurm", "--dry-run"])
    assert ran.exit_code == 0, ran.output
    assert "#SBATCH --partition=train" in ran.stdout


def test_without_a_platform_file_the_only_connected_platform_is_used(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["launch", job(home), "--target=slurm", "--dry-run"]
    several = CliRunner().invoke(app, words)
    assert "you have connected to eks, slurm" in str(several.exception) and "--platform" in str(several.exception)

    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "other"))
    none = CliRunner().invoke(app, words)
    assert "there is no such file" in str(none.exception) and "`trainway connect PLATFORM" in str(none.exception)

    said = CliRunner().invoke(app, ["connect", "slurm", "--region=us-west-2"])
    assert "`trainway launch train.py --target slurm --platform slurm` runs a program on it" in said.stdout
    only = CliRunner().invoke(app, words)
    assert only.exit_code == 0, only.output
    assert "platform: slurm in us-west-2, by `trainway connect`" in only.stderr
    assert "#SBATCH --partition=train" in only.stdout


def test_a_file_comes_before_a_connected_platform_of_its_name(home: Path) -> None:
    (home / "slurm").write_text("name: 7\n")
    ran = CliRunner().invoke(app, ["launch", job(home), "--target=slurm", "--platform=slurm", "--dry-run"])
    assert "slurm:1:1: name" in str(ran.exception)
