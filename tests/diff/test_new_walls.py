"""The diff lists the steps that add walls to a platform whose teams share everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from tests.hand_offs import hand_off_in
from tests.synthesis import ROOT, assembly_in
from trainway.diff.new_walls import steps_to_new_walls
from trainway.diff.report import DiffReport, text_of
from trainway.spec.handoff import HandOff, TeamData
from trainway.spec.handoff_names import parameter_name
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

REGION = "us-west-2"
# Of a platform with one team, whose jobs mount the whole file system, which is linked to S3.
DEPLOYED = ROOT / "examples" / "hyperpod-eks-p5.yaml"
TWO_TEAMS: dict[str, Any] = {
    "name": "atlas",
    "region": REGION,
    "zones": ["usw2-az2", "usw2-az1"],
    "orchestrator": "hyperpod-eks",
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 2}],
    "teams": [{"name": "research", "data": ["checkpoints/llama"]}, {"name": "product"}],
}
ON_SLURM = {"orchestrator": "hyperpod-slurm"}
KEYS = (
    *("checkpoints/llama/step-1", "checkpoints/llama-2/step-1", "corpus/web/a", "corpus/code/a"),
    *("runs/.registry/a.json", "runs/code/b.tar.gz", "runs/llama-1101-101500/log", "runs/product/a/log"),
)


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running(region=REGION) as started:
        yield started


@pytest.fixture
def client(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    return boto3.client


def two_teams(**changes: Any) -> Platform:
    return Platform.model_validate(TWO_TEAMS | changes)


def deployed(client: Any, **changes: Any) -> HandOff:
    """Write the hand-off of a deploy, and create a bucket with data and runs."""
    told = hand_off_in(assembly_in(DEPLOYED)).model_copy(update={"bucket": "data-of-atlas", **changes})
    client("ssm").put_parameter(
        Name=parameter_name("atlas"), Value=told.model_dump_json(), Type="String", Tier="Advanced", Overwrite=True
    )
    with suppress(client("s3").exceptions.BucketAlreadyOwnedByYou):
        client("s3").create_bucket(Bucket=told.bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    for key in KEYS:
        client("s3").put_object(Bucket=told.bucket, Key=key, Body=b"a")
    return told


def test_the_first_walls_are_told_with_what_belongs_to_no_team(client: Any) -> None:
    deployed(client)
    platform = two_teams(storage={"bucket": {"shared": ["corpus/web"]}})
    limits, data, jobs, directories = steps_to_new_walls(platform, client("s3"))
    assert "(research, product)" in limits and "set storage.bucket.team_prefixes to false" in limits
    assert "what teams continue to use of corpus/code, checkpoints/llama-2, runs/llama-1101-101500." in data
    assert "stop running jobs" in jobs
    assert "wait until FSx has exported all files" in directories and "teams/NAMESPACE" in directories
    report = DiffReport(platform="atlas", region=REGION, account="1", stacks=(), steps=(limits, data))
    assert f"\nstep 1: {limits}.\nstep 2: {data}." in text_of(report)


def test_a_slurm_cluster_gets_new_nodes(client: Any) -> None:
    deployed(client)
    assert any("replace all nodes" in each for each in steps_to_new_walls(two_teams(**ON_SLURM), client("s3")))


@pytest.mark.parametrize(
    ("file", "before"),
    [
        ({"storage": {"bucket": {"team_prefixes": False}}}, {}),
        ({"teams": [{"name": "research"}]}, {}),
        ({}, {"team_data": {"research": TeamData(own=("runs/research",))}}),
        ({"name": "borealis"}, {}),
    ],
    ids=["on purpose", "one team", "walls are there", "nothing is deployed"],
)
def test_other_deploys_have_no_steps(file: dict[str, Any], before: dict[str, Any], client: Any) -> None:
    deployed(client, **before)
    assert steps_to_new_walls(two_teams(**file), client("s3")) == ()


def test_whoever_may_not_list_the_bucket_is_told_the_other_steps(client: Any) -> None:
    deployed(client, bucket="of-somebody-else-2")
    client("s3").delete_objects(Bucket="of-somebody-else-2", Delete={"Objects": [{"Key": key} for key in KEYS]})
    client("s3").delete_bucket(Bucket="of-somebody-else-2")
    steps = steps_to_new_walls(two_teams(), client("s3"))
    assert len(steps) == 3 and not any("data" in each for each in steps)


def test_the_files_of_examples_with_several_teams_have_walls() -> None:
    examples = [load_platform(file) for file in sorted((ROOT / "examples").glob("*.yaml"))]
    several = [each for each in examples if len(each.teams) > 1]
    assert len(several) > 2
    for platform in several:
        assert platform.storage.bucket.team_prefixes, platform.name
        has_directories = platform.storage.lustre is None or not platform.orchestrator.is_kubernetes
        assert has_directories or platform.storage.team_directories, platform.name
