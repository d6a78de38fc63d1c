"""A job reads secrets of AWS Secrets Manager on its nodes, and nothing that is kept or printed has their values."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import files
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from emulator import Emulator, running
from tests.command_line import run_trainway
from tests.launch.foreign import write_foreign_job
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.sagemaker.requests import on_sagemaker
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from trainway.launch.job_file.programs import load_program
from trainway.launch.kubernetes import KubernetesOptions, render_documents
from trainway.launch.kubernetes.render import as_yaml
from trainway.launch.node.exit_statuses import NOT_FOUND
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import READER
from trainway.launch.program.request import Request
from trainway.launch.sagemaker import render_request
from trainway.launch.slurm import render_script
from trainway.launch.starting.job_checks import check_secrets
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.problems import SpecError
from trainway.spec.sections.job_secret import JobSecret

VALUE, PASSWORD = "of-the-secret-0123456789", "pass word with 'quotes'"
ARN = "arn:aws:secretsmanager:us-west-2:123456789012:secret:{}-AbCdEf"
SAYS = "import hashlib, os; v = os.environ['HF_TOKEN']; print('it is', v, hashlib.sha256(v.encode()).hexdigest()[:8])"


@pytest.fixture(scope="module")
def aws() -> Iterator[Emulator]:
    """AWS with a token, a password in JSON, a binary secret, and one that is scheduled for deletion."""
    with running() as emulator, pytest.MonkeyPatch.context() as patch:
        for name, value in emulator.environment().items():
            patch.setenv(name, value)
        secrets = boto3.client("secretsmanager", region_name="us-west-2")
        secrets.create_secret(Name="hugging-face", SecretString=VALUE)
        secrets.create_secret(Name="postgres", SecretString=json.dumps({"password": PASSWORD}))
        secrets.create_secret(Name="binary", SecretBinary=b"\0\1")
        secrets.create_secret(Name="former", SecretString="x")
        secrets.delete_secret(SecretId="former")
        yield emulator


@pytest.mark.usefixtures("aws")
def test_the_program_has_the_secret_and_no_file_and_no_line_has(tmp_path: Path) -> None:
    job = write_foreign_job(tmp_path, command=["python", "-c", SAYS], secrets={"HF_TOKEN": "hugging-face"})
    trainway = partial(run_trainway, directory=tmp_path)
    said = [trainway("launch", str(job), "--run=runs/first")]
    assert said[0].returncode == 0, said[0].stderr
    assert f"it is *** {hashlib.sha256(VALUE.encode()).hexdigest()[:8]}" in said[0].stdout
    said += [trainway(*words) for words in (("status",), ("logs", "runs/first"), ("explain", "runs/first"))]
    assert "it is ***" in said[2].stdout
    said.append(trainway("launch", str(job), "--dry-run"))
    assert "--secret=HF_TOKEN=hugging-face" in said[-1].stdout
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(written) > 5
    assert not [file for file in written if VALUE.encode() in file.read_bytes()]
    assert not [each for each in said if VALUE in each.stdout + each.stderr]


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("secret", "why"),
    [
        ("absent", "absent cannot be read: ResourceNotFoundException"),
        # As the case before it, with another error of AWS.
        pytest.param("former", "former cannot be read: InvalidRequestException", marks=pytest.mark.exhaustive),
        pytest.param("binary", "the secret binary is binary", marks=pytest.mark.exhaustive),
        ("postgres#user", "the secret postgres is no JSON object with the key user"),
    ],
)
def test_a_secret_that_cannot_be_read_ends_the_run_with_a_sentence(secret: str, why: str, tmp_path: Path) -> None:
    job = write_foreign_job(tmp_path, command=["true"], secrets={"HF_TOKEN": secret})
    done = run_trainway("launch", str(job), "--run=runs/bad", directory=tmp_path)
    assert done.returncode == NOT_FOUND and f"why: {why}" in done.stderr and "Traceback" not in done.stderr, done.stderr


def read(*words: str, python: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *python, str(READER), *words]
    told = {**os.environ, **environment}
    return subprocess.run(command, env=told, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for PATH with the real AWS CLI, which is an asset of the CDK."""
    directory = tmp_path_factory.mktemp("cli")
    package = next(file for file in files("aws-cdk-asset-awscli-v1") or [] if file.name.endswith(".jsii.tgz")).locate()
    with tarfile.open(str(package)) as tar, zipfile.ZipFile(tar.extractfile("package/lib/layer.zip") or "") as layer:
        layer.extractall(directory)
    program = directory / "bin" / "aws"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={directory}/awscli exec {sys.executable} {directory}/awscli/aws "$@"\n')
    program.chmod(0o755)
    return program.parent


# A Python without site-packages, and so without boto3.
BARE = ("-S", "-E")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("aws")
def test_without_boto3_the_aws_cli_reads_and_without_both_the_remedy_is_named(cli: Path, tmp_path: Path) -> None:
    both = ("secrets", "HF_TOKEN=hugging-face", "DB=postgres#password")
    expected = {"HF_TOKEN": VALUE, "DB": PASSWORD}
    path = f"{cli}:{os.environ['PATH']}"
    assert json.loads(read(*both).stdout) == json.loads(read(*both, python=BARE, PATH=path).stdout) == expected
    absent = read("secrets", "X=absent", python=BARE, PATH=path)
    assert absent.returncode == NOT_FOUND and "absent cannot be read" in absent.stdout
    neither = read(*both, python=BARE, PATH=str(tmp_path))
    assert neither.returncode == NOT_FOUND and "add boto3 to run.packages" in neither.stdout

    s3 = boto3.client("s3", region_name="us-west-2")
    s3.create_bucket(Bucket="code", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    s3.put_object(Bucket="code", Key="a/b", Body=b"archive")
    for options in ({}, {"python": BARE, "PATH": path}):
        file = tmp_path / "file"
        assert read("object", "s3://code/a/b", str(file), **options).returncode == 0  # type: ignore[arg-type]
        assert file.read_bytes() == b"archive"
        file.unlink()


def test_aws_that_is_not_reached_is_tried_again() -> None:
    done = read(
        "secrets",
        "X=absent",
        AWS_ENDPOINT_URL="http://127.0.0.1:9",
        AWS_MAX_ATTEMPTS="1",
        AWS_ACCESS_KEY_ID="a",
        AWS_SECRET_ACCESS_KEY="b",
        AWS_REGION="us-west-2",
    )
    assert done.returncode == 1 and "absent cannot be read: Could not connect" in done.stdout, done


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("listed", "why", "fix"),
    [
        ([], "the platform file lists none", "add its ARN to `secrets`"),
        ([{"secret": ARN.format("absent")}], "us-west-2 has no secret of this name", "create-secret --name absent"),
        ([{"secret": ARN.format("former")}], "scheduled for deletion", "restore-secret"),
        ([{"secret": ARN.format("hugging-face"), "teams": ["vision"]}], "for jobs of vision", "set `team`"),
    ],
)
def test_a_secret_is_looked_at_before_the_launch(listed: list[Any], why: str, fix: str, tmp_path: Path) -> None:
    secrets = tuple(JobSecret.model_validate(each) for each in listed)
    platform = platform_named("kueue").model_copy(update={"region": "us-west-2", "secrets": secrets})
    name = secrets[0].name if secrets else "hugging-face"
    program = load_program(write_foreign_job(tmp_path, secrets={"HF_TOKEN": f"{name}#key"}))
    with pytest.raises(UsageError, match=why) as caught:
        check_secrets(program, platform)
    assert fix in str(caught.value)
    found = platform.model_copy(update={"secrets": (JobSecret(secret=ARN.format("hugging-face")),)})
    check_secrets(dataclasses.replace(program, secrets={"HF_TOKEN": "hugging-face"}), found)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"secrets": {"HF_TOKEN": "hf_abcdefgh"}}, "no name of a secret"),
        ({"secrets": {"PET_NNODES": "x"}}, "sets PET_NNODES"),
        ({"secrets": {"A": "x"}, "environment": {"A": "1"}}, "sets A"),
        ({"secrets": {"A-B": "x"}}, "no name of a variable"),
    ],
)
def test_a_value_in_the_place_of_a_name_is_refused(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=why):
        load_program(write_foreign_job(tmp_path, **changes))


def test_each_target_tells_its_nodes_the_name(tmp_path: Path, hand_off: HandOff) -> None:
    program = load_program(write_foreign_job(tmp_path, secrets={"HF_TOKEN": "hugging-face"}))

    def asked(there: HandOff) -> Request:
        own = dataclasses.replace(program, team=there.teams[0] if there.teams else None)
        return Request(own, "first", there, IMAGE, allocate(own, there, CATALOGUE))

    kueue = asked(hand_off_of(platform_named("kueue")))
    rendered = (
        as_yaml(render_documents(kueue, CATALOGUE, KubernetesOptions())),
        render_script(asked(on_slurm(hand_off)), CATALOGUE),
        json.dumps(render_request(asked(on_sagemaker(hand_off)), CATALOGUE)),
    )
    for text in rendered:
        assert "--secret=HF_TOKEN=hugging-face" in text
    # Of the node that starts mpirun, and of each rank.
    mpi = as_yaml(render_documents(kueue, CATALOGUE, KubernetesOptions(kind="MPIJob")))
    assert mpi.count("--secret=HF_TOKEN=hugging-face") == 2
    own = dataclasses.replace(kueue.program, command=("mpirun", "./a.out"))
    with pytest.raises(UsageError, match=r"no starter has read run\.secrets"):
        render_documents(dataclasses.replace(kueue, program=own), CATALOGUE, KubernetesOptions(kind="MPIJob"))


def test_a_person_without_the_right_to_look_at_a_secret_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = boto3.client("secretsmanager", region_name="us-west-2", aws_access_key_id="a", aws_secret_access_key="b")
    platform = platform_named("kueue").model_copy(update={"secrets": (JobSecret(secret=ARN.format("hugging-face")),)})
    with Stubber(client) as stub:
        stub.add_client_error("describe_secret", "AccessDeniedException", "you may not")
        monkeypatch.setattr(boto3, "client", lambda *_, **__: client)
        check_secrets(load_program(write_foreign_job(tmp_path, secrets={"HF_TOKEN": "hugging-face"})), platform)
        stub.assert_no_pending_responses()


def test_the_name_of_a_secret_is_in_its_arn() -> None:
    assert JobSecret(secret=ARN.format("team/hugging-face")).name == "team/hugging-face"
