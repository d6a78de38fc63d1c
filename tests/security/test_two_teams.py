"""Threat: a member acts on another team's run by the command line. Two teams, a laptop each, and an AWS that refuses.

The platform is in the emulated AWS. A server in front of it asks an IAM evaluator about each request, with the policies
of the synthesized templates. Each laptop is an empty home.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from emulator import Emulator, running
from tests.command_line import run_trainway
from tests.hand_offs import document_in
from tests.seams.resolved import Deployed, deploy
from tests.security.enforced_aws import Enforced, Person, enforced
from tests.security.test_team_data import PLATFORM, bucket_of, roles_of
from tests.synthesis import assembly_in, templates_of
from trainway.spec.handoff import BuiltImage, HandOff, Pointer, fill
from trainway.spec.handoff_names import image_parameter_name
from trainway.spec.loader import load_platform

REGION = PLATFORM["region"]
TEAM, OTHER = "vision", "vision-2"
# Ann and Bob are of one team, and Cyd is of the other one.
MEMBERS = {"ann": TEAM, "bob": TEAM, "cyd": OTHER}
JOB = {"name": "nightly", "team": TEAM, "run": {"script": "python -c 'print(1)'", "metrics": {"step": r"step=(\d+)"}}}
ON = ("--target", "sagemaker", "--platform", "theirs.yaml")
COMMANDS = (
    *(("status", "{run}"), ("logs", "{run}"), ("explain", "{run}"), ("report", "{run}"), ("copy", "{run}")),
    *(("forward", "{run}", "6006"), ("shell", "{run}"), ("resume", "{run}"), ("stop", "{run}")),
)


@dataclass(frozen=True)
class Laptops:
    """The machines of the members: `at` runs the command line on one of them."""

    home: Path
    emulator: Emulator
    aws: Enforced
    bucket: str
    platform: str

    def at(self, person: str, *words: str) -> subprocess.CompletedProcess[str]:
        home = self.home / person
        environment = self.aws.environment(self.emulator, person)
        environment |= {"HOME": str(home), "LOGNAME": person}
        environment.pop("XDG_CONFIG_HOME", None)
        return run_trainway(*words, directory=home, environment=environment)

    def succeeds(self, person: str, *words: str) -> str:
        done = self.at(person, *words)
        assert done.returncode == 0, f"{person}: {words}: {done.stderr}"
        return done.stdout + done.stderr

    def fails(self, person: str, *words: str) -> str:
        """Return what a command says that ends with an error of its own, after it has told nothing of the run."""
        done = self.at(person, *words)
        assert done.returncode == 2, f"{person}: {words}: {done.returncode} {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr and done.stdout == "", done.stdout + done.stderr
        return done.stderr

    def s3(self) -> Any:
        return client(self.emulator, "s3")


def client(emulator: Emulator, service: str) -> Any:
    make: Any = boto3.client
    keys = {"aws_access_key_id": "emulator", "aws_secret_access_key": "emulator"}
    return make(service, endpoint_url=emulator.endpoint, region_name=emulator.region, **keys)


@pytest.fixture(scope="module")
def platform_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("platform") / "platform.yaml"
    # Runs are copied from the bucket, which a shared file system mirrors.
    storage = PLATFORM["storage"] | {"lustre": {"team_directories": False}}
    file.write_text(yaml.safe_dump(PLATFORM | {"orchestrator": "eks", "storage": storage}))
    return file


@pytest.fixture(scope="module")
def laptops(platform_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptops]:
    platform = deploy(templates_of(platform_file), REGION)
    arn, theirs = bucket_of(platform)
    bucket = arn.removeprefix("arn:aws:s3:::")
    people = {}
    for person, team in MEMBERS.items():
        *_, (name, policies) = roles_of(team, platform, "eks")
        people[person] = Person(name, policies)
    home = tmp_path_factory.mktemp("laptops")
    with running(region=REGION) as emulator:
        leave_deployed(emulator, platform_file, platform)
        with enforced(emulator, people, {bucket: theirs}) as aws:
            for person, team in MEMBERS.items():
                (home / person).mkdir()
                (home / person / "job.yaml").write_text(yaml.safe_dump(JOB | {"team": team}))
                shutil.copy(platform_file, home / person / "theirs.yaml")
            yield Laptops(home, emulator, aws, bucket, load_platform(platform_file).name)
            assert aws.unknown == []


def leave_deployed(emulator: Emulator, platform_file: Path, deployed: Deployed) -> None:
    """Leave what a deploy leaves for a launch: the hand-off with its document, the buckets, and the built image."""
    platform = load_platform(platform_file)
    parameters = deployed.of_type("AWS::SSM::Parameter").values()
    (written,) = (each for each in parameters if each["Name"].endswith("/hand-off"))
    pointer = Pointer.model_validate_json(written["Value"])
    document = document_in(assembly_in(platform_file), pointer)
    hand_off = HandOff.model_validate_json(fill(document, pointer.values))
    assert hand_off.training_jobs is not None
    ec2, s3, ssm = (client(emulator, each) for each in ("ec2", "s3", "ssm"))
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/20")["Subnet"]["SubnetId"]
    jobs = hand_off.training_jobs.model_copy(
        update={"subnet_ids": dict.fromkeys(hand_off.training_jobs.subnet_ids, subnet)}
    )
    hand_off = hand_off.model_copy(update={"training_jobs": jobs})
    for name in (pointer.bucket, hand_off.bucket):
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=pointer.bucket, Key=pointer.key, Body=hand_off.model_dump_json().encode())
    value = pointer.model_copy(update={"values": ()}).model_dump_json(exclude_none=True)
    ssm.put_parameter(Name=written["Name"], Type="String", Value=value)
    built = BuiltImage(uri=hand_off.image_uri, pinned=f"{hand_off.image_uri.rpartition(':')[0]}@sha256:{'5e' * 32}")
    ssm.put_parameter(Name=image_parameter_name(platform.name), Type="String", Value=built.model_dump_json())


@pytest.fixture
def launched(laptops: Laptops) -> str:
    """The name of a run that Ann has launched, and that has written a file. The others know the platform."""
    done = laptops.at("ann", "launch", "job.yaml", *ON)
    assert done.returncode == 0, done.stderr
    name = done.stdout.split()[-1]
    body = b"this is the team's"
    laptops.s3().put_object(Bucket=laptops.bucket, Key=f"runs/{TEAM}/{name}/output.txt", Body=body)
    for person in ("bob", "cyd"):
        laptops.succeeds(person, "connect", laptops.platform, "--region", REGION)
    return name


@pytest.mark.exhaustive
def test_a_colleague_uses_every_command_on_the_run(laptops: Laptops, launched: str) -> None:
    run = launched
    [row] = json.loads(laptops.succeeds("bob", "status", run, "--json"))
    assert (row["phase"], row["owner"], row["team"], row["attempts"]) == ("running", "ann", TEAM, 1)
    for words in (("--all",), ("--team", TEAM)):
        assert run in laptops.succeeds("bob", "status", *words)
    laptops.succeeds("bob", "logs", run)
    assert "nothing that was gathered tells of a failure" in laptops.succeeds("bob", "explain", run)
    assert "copied" in laptops.succeeds("bob", "copy", run)
    assert (laptops.home / "bob" / "runs" / run / "output.txt").read_text() == "this is the team's"
    # The target's own limits, for Ann as well.
    for person in ("ann", "bob"):
        assert "the target sagemaker reaches no ports" in laptops.fails(person, "forward", run, "6006")
        assert "metrics cannot be read" in laptops.fails(person, "report", run)
    taken = laptops.fails("bob", "launch", "job.yaml", *ON, "--run", run)
    assert f"the run cannot be called {run}" in taken
    laptops.succeeds("bob", "stop", run)
    assert "has ended: it is stopped" in laptops.succeeds("ann", "stop", run)
    laptops.succeeds("bob", "resume", run)
    [row] = json.loads(laptops.succeeds("ann", "status", run, "--json"))
    assert (row["phase"], row["owner"], row["attempts"]) == ("running", "ann", 2)
    laptops.succeeds("ann", "stop", run)
    listed = laptops.succeeds("bob", "runs", "prune", "--days", "0")
    assert run in listed and "1 records would be deleted" in listed
    assert "0 records" in laptops.succeeds("cyd", "runs", "prune", "--days", "0", "--yes")
    laptops.succeeds("bob", "runs", "prune", "--days", "0", "--yes")
    assert keys(laptops, f"runs/{TEAM}/.registry/") == []
    assert f"runs/{TEAM}/{run}/output.txt" in keys(laptops, f"runs/{TEAM}/{run}/")


def keys(laptops: Laptops, prefix: str) -> list[str]:
    listed = laptops.s3().list_objects_v2(Bucket=laptops.bucket, Prefix=prefix)
    return [each["Key"] for each in listed.get("Contents", ())]


def test_a_training_job_keeps_its_checkpoints_where_only_its_team_reads_them(laptops: Laptops) -> None:
    data = {"train": "s3:/corpus/web", "sequence_length": 64}
    document = {"name": "small", "team": TEAM, "model": "tiny", "data": data, "steps": 12}
    document |= {"precision": "fp32", "batch": {"global": 16, "micro": 1}, "checkpoint": {"every": 4}}
    (laptops.home / "ann" / "train.yaml").write_text(yaml.safe_dump(document))
    laptops.s3().put_object(Bucket=laptops.bucket, Key="corpus/web/index.json", Body=b"{}")
    run = laptops.succeeds("ann", "launch", "train.yaml", *ON).split()[0]
    record = laptops.s3().get_object(Bucket=laptops.bucket, Key=f"runs/{TEAM}/.registry/{run}.json")["Body"].read()
    assert f"s3:/checkpoints/{TEAM}/small" in json.loads(record)["files"]["job.yaml"]


def test_another_team_is_refused_by_every_command(laptops: Laptops, launched: str) -> None:
    before = {key: laptops.s3().head_object(Bucket=laptops.bucket, Key=key)["ETag"] for key in keys(laptops, "runs/")}
    for words in COMMANDS:
        said = laptops.fails("cyd", *(word.format(run=launched) for word in words))
        assert f"there is no run {launched}" in said and "no record of it that you may read" in said, words
    assert launched not in laptops.succeeds("cyd", "status", "--all")
    assert "cannot be listed" in laptops.fails("cyd", "status", "--team", TEAM)
    assert "0 records" in laptops.succeeds("cyd", "runs", "prune", "--days", "0", "--yes")
    assert "cannot be listed" in laptops.fails("cyd", "runs", "prune", "--days", "0", "--team", TEAM, "--yes")
    # A job that says it is of the other team.
    (laptops.home / "cyd" / "theirs").mkdir()
    (laptops.home / "cyd" / "theirs" / "job.yaml").write_text(yaml.safe_dump(JOB))
    said = laptops.fails("cyd", "launch", "theirs/job.yaml", *ON, "--run", "planted")
    assert "AccessDenied" in said and f"runs/{TEAM}/.registry/planted.json" in said
    # With the files of the run from the laptop of a colleague, the target and the bucket refuse.
    shutil.copytree(laptops.home / "ann" / "runs" / launched, laptops.home / "cyd" / "runs" / launched)
    for words, action in (
        (("stop", launched), "sagemaker:StopTrainingJob"),
        (("copy", launched), "s3:ListBucket"),
        (("resume", launched), "s3:GetObject"),
    ):
        laptops.aws.refused.clear()
        laptops.fails("cyd", *words)
        assert [(who, what) for who, what, _ in laptops.aws.refused][-1:] == [("cyd", action)], laptops.aws.refused
    after = {key: laptops.s3().head_object(Bucket=laptops.bucket, Key=key)["ETag"] for key in keys(laptops, "runs/")}
    assert after == before and launched not in laptops.aws.stopped
    shutil.rmtree(laptops.home / "cyd" / "runs")


# The twin of the test of the refusals: it shows that they come from the policies.
@pytest.mark.exhaustive
def test_an_aws_that_refuses_nothing_would_let_the_other_team_stop_the_run(laptops: Laptops, launched: str) -> None:
    """The refusals come from the policies: with Bob's credentials, Cyd's laptop does what Bob's does."""
    home = laptops.home / "cyd"
    shutil.copytree(laptops.home / "ann" / "runs" / launched, home / "runs" / launched)
    (laptops.home / "bob" / "runs").mkdir(exist_ok=True)
    shutil.move(home / "runs" / launched, laptops.home / "bob" / "runs" / launched)
    laptops.succeeds("bob", "stop", launched)
    assert launched in laptops.aws.stopped
