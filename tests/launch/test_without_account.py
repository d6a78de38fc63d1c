"""A dry run and `trainway check --platform` need no credentials, no network, and no deployed platform."""

from __future__ import annotations

import json
import re
import shlex
import socket
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.known_day import ON_KNOWN_DAY
from tests.launch.conftest import write_job
from tests.representatives import PLATFORMS, with_representatives
from tests.synthesis import EXAMPLES, ROOT
from trainway.cli import app
from trainway.launch.starting import job_packages
from trainway.launch.target.known import own_target
from trainway.spec.errors import UsageError
from trainway.spec.handoff_names import parameter_name
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError

EKS = ROOT / "examples" / "eks-p5.yaml"
FROM_FILE = re.compile(r"^platform: (\S+) as its file describes it, because the deployed platform was not read: ", re.M)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty directory, without credentials, without programs on PATH, and without a network."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_REGION", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))

    def refused(*_: Any) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    return tmp_path


def ran(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def launched(platform: Path, *words: str, target: str = "") -> Result:
    """Dry-run a launch on a platform, of its first team, and by default on its own cluster."""
    described = load_platform(platform)
    team = [f"--team={described.teams[0].name}"] if described.teams else []
    chosen = target or own_target(described).name
    return ran("launch", f"--target={chosen}", f"--platform={platform}", *team, "--dry-run", *words)


@pytest.mark.parametrize("example", with_representatives([file.stem for file in EXAMPLES], PLATFORMS))
def test_a_dry_run_on_every_example_prints_what_would_be_submitted(example: str) -> None:
    (platform,) = [file for file in EXAMPLES if file.stem == example]
    said = launched(platform, "train.py")
    assert said.exit_code == 0, said.exception
    # Nobody takes the digest for that of an image.
    assert f"sha256:{64 * '0'}" in said.stdout, said.stdout
    assert FROM_FILE.findall(said.stderr) == [load_platform(platform).name], "it is said once"
    assert "Unable to locate credentials" in said.stderr and "zeros stand for" in said.stderr


def test_a_training_job_has_the_role_and_the_network_that_a_deploy_would_make(home: Path) -> None:
    platform = home / "platform.yaml"
    platform.write_text(yaml.safe_dump(yaml.safe_load(EKS.read_text()) | {"iam": {"training_jobs": True}}))
    said = launched(platform, "train.py", target="sagemaker")
    assert said.exit_code == 0, said.exception
    document = json.loads(said.stdout)
    assert document["RoleArn"] == "arn:aws:iam::000000000000:role/atlas-training-jobs-research"
    assert document["VpcConfig"]["Subnets"] == [f"subnet-{17 * '0'}"]
    assert document["ResourceConfig"]["InstanceType"] == "ml.p5.48xlarge"
    assert len(FROM_FILE.findall(said.stderr)) == 1


def test_the_values_of_the_file_are_those_of_the_platform() -> None:
    said = launched(EKS, "train.py")
    [_, runtime, job] = yaml.safe_load_all(said.stdout)
    assert job["metadata"]["namespace"] == "research"
    assert "vpc.amazonaws.com/efa" in json.dumps(job) + json.dumps(runtime)


def test_a_sweep_says_once_that_the_platform_was_not_read() -> None:
    said = launched(EKS, "--array=3", "train.py")
    assert said.exit_code == 0, said.exception
    assert len(FROM_FILE.findall(said.stderr)) == 1 and said.stdout.count("kind: TrainJob") == 3


def test_a_local_dry_run_reads_the_bucket_of_the_platform_from_the_file(home: Path) -> None:
    said = ran("launch", write_job(home), f"--platform={ROOT / 'platform.yaml'}", "--dry-run")
    assert said.exit_code == 0, said.exception
    assert "s3://first-data-000000000000-us-west-2" in said.stdout and len(FROM_FILE.findall(said.stderr)) == 1


def test_the_dry_runs_of_the_readme_need_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"^ +trainway (launch .*--dry-run.*)$", (ROOT / "README.md").read_text(), re.M)
    assert len(commands) >= 2
    for command in commands:
        said = ran(*shlex.split(command))
        assert said.exit_code == 0 and said.stdout, f"{command}: {said.exception}"


def test_packages_without_a_lock_are_named_and_the_index_is_not_asked(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_packages, "_new_lock", lambda *_: pytest.fail("the index was asked"))
    job = {
        "name": "tuned",
        "team": "research",
        "run": {"command": ["torchrun", "train.py"], "packages": ["trl==1.16.0"]},
    }
    (home / "job.yaml").write_text(yaml.safe_dump(job))
    said = ran("launch", "job.yaml", "--target=kubernetes", f"--platform={EKS}", "--dry-run")
    assert said.exit_code == 0, said.exception
    [files, *_] = yaml.safe_load_all(said.stdout)
    comment, *packages = files["data"]["packages.txt"].splitlines()
    assert comment.startswith("# Not resolved: ") and packages == ["trl==1.16.0"]
    assert not list(home.glob("*.lock"))


def test_a_launch_still_needs_the_deployed_platform() -> None:
    refused = ran("launch", "--target=kubernetes", f"--platform={EKS}", "--team=research", "train.py")
    assert isinstance(refused.exception, UsageError)
    assert str(refused.exception).splitlines() == [
        "the hand-off /trainway/atlas/hand-off in us-west-2 cannot be read",
        "    why: Unable to locate credentials",
        "    fix: `aws sts get-caller-identity` shows whether this shell has credentials",
    ]


def test_a_hand_off_that_this_version_does_not_read_is_no_reason_to_use_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from moto import mock_aws

    # mock_aws answers in this process, and so needs no network.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws():
        ssm = boto3.client("ssm", region_name="us-west-2")
        ssm.put_parameter(Name=parameter_name("atlas"), Type="String", Value='{"schema_version": 9}')
        refused = launched(EKS, "train.py")
        assert "its schema version is 9" in str(refused.exception) and not FROM_FILE.search(refused.stderr)
        ssm.delete_parameter(Name=parameter_name("atlas"))
        said = launched(EKS, "train.py")
        assert said.exit_code == 0, said.exception
        assert "no platform of the name atlas is deployed there; zeros stand for" in said.stderr


def test_a_connected_platform_has_no_file_here_and_its_error_says_so(home: Path) -> None:
    (home / "config" / "trainway").mkdir(parents=True)
    (home / "config" / "trainway" / "platforms.json").write_text('{"atlas": "us-west-2"}')
    for words in (
        ("launch", "--target=kubernetes", "--dry-run", "--platform=atlas", "train.py"),
        ("check", write_job(home), "--platform=atlas"),
    ):
        refused = ran(*words)
        assert str(refused.exception).splitlines() == [
            "the platform file of the last deploy /trainway/atlas/platform-file in us-west-2 cannot be read",
            "    why: Unable to locate credentials",
            "    fix: `aws sts get-caller-identity` shows whether this shell has credentials",
        ]


# A change of the job of conftest.py, and what is wrong with it on the platform. It has no problem alone.
PROBLEMS = (
    ({"team": "nobody"}, "the platform atlas has no such team"),
    ({"nodes": 900}, "900"),
    ({"kubernetes": {"kind": "RayJob"}}, "RayJob"),
)


def test_a_check_on_a_platform_says_where_its_values_are_from(home: Path) -> None:
    job = write_job(home, team="research", nodes=8, batch={"global": 64, "micro": 1})
    said = ran("check", job, f"--platform={EKS}", *ON_KNOWN_DAY)
    assert said.exit_code == 0, said.exception
    first, second, *further = said.stdout.replace("\n  ", " ").splitlines()
    assert first.endswith("job.yaml: small on 8 nodes, on atlas: no problems.")
    assert second == f"note: atlas is as {EKS} describes it. The deployed platform was not read"
    assert any("train has 4, and the job waits until 8 are there" in line for line in further)
    document = json.loads(ran("check", job, f"--platform={EKS}", "--json", *ON_KNOWN_DAY).stdout)
    assert document["problems"] == [] and len(document["notes"]) >= 3
    assert not (home / "runs").exists()


@pytest.mark.parametrize(("changes", "why"), PROBLEMS, ids=[why for _, why in PROBLEMS])
def test_a_check_on_a_platform_finds_what_a_launch_would(home: Path, changes: dict[str, Any], why: str) -> None:
    job = write_job(home, **{"team": "research", "batch": {"global": 7200, "micro": 1}, **changes})
    assert ran("check", job).exit_code == 0
    refused = ran("check", job, f"--platform={EKS}", *ON_KNOWN_DAY)
    assert isinstance(refused.exception, SpecError) and why in str(refused.exception)
    assert "    fix: " in str(refused.exception)
    as_json = ran("check", job, f"--platform={EKS}", "--json", *ON_KNOWN_DAY)
    (problem,) = json.loads(as_json.stdout)["problems"]
    assert as_json.exit_code == 2 and why in problem["reason"] and problem["remedy"]


def test_a_platform_file_is_checked_alone() -> None:
    refused = ran("check", EKS, f"--platform={EKS}")
    assert str(refused.exception).startswith("--platform cannot be used with a platform file\n")
