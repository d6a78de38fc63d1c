"""A training job is asked for as SageMaker's API takes it, with the command that every target runs."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.launch.conftest import BUCKET
from tests.launch.sagemaker.requests import CATALOGUE, on_sagemaker, request
from tests.service_model import problems
from trainway.launch.kubernetes.process import JOB_FILE as KUBERNETES_JOB_FILE
from trainway.launch.local import render_local
from trainway.launch.program.environment import job_environment
from trainway.launch.program.request import Request
from trainway.launch.sagemaker import DATA, SageMakerOptions, as_json, render_request
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

PLAN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/autumn"
KEY = "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
CODE = f"s3://{BUCKET}/runs/code/{'c0' * 32}.tar.gz"


def rendered(launch: Request, **options: Any) -> dict[str, Any]:
    launch = replace(launch, code=options.pop("code", None))
    return render_request(launch, CATALOGUE, SageMakerOptions(**options))


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"spot": True},
        {"spot": True, "wait_minutes": 0, "retries": 30, "code": CODE},
        {"training_plan": PLAN, "wait_minutes": 40320, "time_limit_minutes": 40320},
        {"warm_minutes": 360, "retries": 0, "encrypt_traffic": True, "shell": True, "check_nodes": False},
    ],
    ids=lambda options: " ".join(options) or "as it is",
)
def test_every_request_is_one_that_the_api_takes(
    data: str, options: dict[str, Any], tmp_path: Path, hand_off: HandOff
) -> None:
    blend = {f"s3:/corpus/part-{number}": 0.01 for number in range(18)}
    launch = request(
        tmp_path, on_sagemaker(hand_off), nodes=2, team="research", data={"train": "fsx:/corpus/web", "blend": blend}
    )
    assert problems("sagemaker", "CreateTrainingJob", rendered(launch, data=data, **options)) == []


def test_the_check_against_the_api_finds_what_botocore_lets_through(tmp_path: Path, hand_off: HandOff) -> None:
    launch = request(tmp_path, on_sagemaker(hand_off))
    for wrong in (
        {"OutputDataConfig": {"S3OutputPath": "a-bucket"}},
        {"TrainingJobName": "no_underscores"},
        {"Environment": {"LONG": "x" * 513}},
        {"RetryStrategy": {"MaximumRetryAttempts": 31}},
        {"ResourceConfig": {"InstanceType": "ml.p5.96xlarge", "InstanceCount": 1}},
        {"Nonsense": 1},
    ):
        assert len(problems("sagemaker", "CreateTrainingJob", rendered(launch) | wrong)) == 1, wrong


def test_the_training_command_is_that_of_this_machine(tmp_path: Path, hand_off: HandOff) -> None:
    launch = request(tmp_path, on_sagemaker(hand_off), nodes=2)
    here = render_local(launch.program, tmp_path, processes=2, hand_off=hand_off)
    algorithm = rendered(launch)["AlgorithmSpecification"]
    assert algorithm["ContainerArguments"][-len(here.command) - 1 :] == ["--", *here.command]
    assert algorithm["TrainingImage"] == launch.image
    assert KUBERNETES_JOB_FILE.name in rendered(launch)["Environment"]["TRAINWAY_JOB"]


def test_all_gpus_of_all_nodes_are_ranks(tmp_path: Path, hand_off: HandOff) -> None:
    job = rendered(request(tmp_path, on_sagemaker(hand_off), nodes=2))
    assert job["ResourceConfig"] == {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2}
    assert (job["Environment"]["PET_NNODES"], job["Environment"]["PET_NPROC_PER_NODE"]) == ("2", "8")
    assert job["InfraCheckConfig"] == {"EnableInfraCheck": True}


def test_jobs_start_in_every_zone_unless_they_mount_the_file_system(tmp_path: Path, hand_off: HandOff) -> None:
    subnets = {
        "other": "subnet-0aaaaaaaaaaaaaaaa",
        "train": "subnet-0bbbbbbbbbbbbbbbb",
        "same": "subnet-0bbbbbbbbbbbbbbbb",
    }
    launch = request(tmp_path, on_sagemaker(hand_off, subnets=subnets))
    for data in DATA:
        vpc = rendered(launch, data=data)["VpcConfig"]
        own, everywhere = [subnets["train"]], [subnets["train"], subnets["other"]]
        assert vpc["Subnets"] == (own if data == "fsx" else everywhere), "the group's own subnet comes first"
        assert vpc["SecurityGroupIds"] == ["sg-0123456789abcdef0", "sg-0123456789abcdef1"]


def test_the_log_of_any_run_says_which_network_it_uses(tmp_path: Path, hand_off: HandOff) -> None:
    evidence = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
    told = rendered(request(tmp_path, on_sagemaker(hand_off)))["Environment"]
    assert evidence.items() <= told.items(), "`trainway verify --run` reads it"


def test_a_hang_of_any_run_leaves_the_state_of_its_collectives_in_its_directory(
    tmp_path: Path, hand_off: HandOff
) -> None:
    told = rendered(request(tmp_path, on_sagemaker(hand_off)))["Environment"]
    assert told["TORCH_FR_DUMP_TEMP_FILE"] == f"{told['TRAINWAY_RUN']}/flight-recorder-rank-"
    assert told["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1" and int(told["TORCH_FR_BUFFER_SIZE"]) > 0


def test_no_processes_restart_in_place_where_sagemaker_repairs_nodes(tmp_path: Path, hand_off: HandOff) -> None:
    def restarts(instance_type: str, **job: Any) -> str:
        launch = request(tmp_path, on_sagemaker(hand_off, instance_type=instance_type), **job)
        return str(rendered(launch)["Environment"]["PET_MAX_RESTARTS"])

    assert (restarts("p5.48xlarge"), restarts("m7i.8xlarge")) == ("0", "3")
    assert restarts("p5.48xlarge", life_cycle={"process_restarts": 2}) == "2", "the job file says so"


def test_the_job_file_is_a_channel_and_the_runs_directory_is_the_buckets(tmp_path: Path, hand_off: HandOff) -> None:
    job = rendered(request(tmp_path, on_sagemaker(hand_off)))
    (channel,) = job["InputDataConfig"]
    assert channel["DataSource"]["S3DataSource"]["S3Uri"] == f"s3://{BUCKET}/runs/small-1/job/"
    assert job["Environment"]["TRAINWAY_JOB"] == f"/opt/ml/input/data/{channel['ChannelName']}/job.yaml"
    assert job["Environment"]["TRAINWAY_RUN_LOCATION"] == f"s3://{BUCKET}/runs/small-1"
    assert job["Environment"]["TRAINWAY_RUN"] == "/opt/ml/checkpoints"
    assert "CheckpointConfig" not in job, "SageMaker would fill the directory as root"
    locations = json.loads(job["Environment"]["TRAINWAY_LOCATIONS"])
    assert locations == {"fsx": f"s3://{BUCKET}", "s3": f"s3://{BUCKET}"}


@pytest.mark.parametrize(("data", "mode"), [("file", "File"), ("fast-file", "FastFile")])
def test_each_location_of_data_is_a_channel_and_checkpoints_are_not(
    data: str, mode: str, tmp_path: Path, hand_off: HandOff
) -> None:
    shares = {"train": "fsx:/corpus/web/", "blend": {"s3:/corpus/code": 0.2, "s3://elsewhere/books": 0.1}}
    job = rendered(request(tmp_path, on_sagemaker(hand_off), data=shares), data=data)
    channels = {each["ChannelName"]: each for each in job["InputDataConfig"]}
    assert {name: each["DataSource"]["S3DataSource"]["S3Uri"] for name, each in channels.items() if name != "job"} == {
        "data-0": f"s3://{BUCKET}/corpus/web/",
        "data-1": f"s3://{BUCKET}/corpus/code/",
    }
    assert channels["data-0"]["InputMode"] == mode
    streamed = job["Environment"].get("TRAINWAY_STREAMED")
    assert streamed == ("/opt/ml/input/data/data-0:/opt/ml/input/data/data-1" if data == "fast-file" else None)
    told = [each for each in job["AlgorithmSpecification"]["ContainerArguments"] if each.startswith("--channel=")]
    assert told == ["--channel=fsx:/corpus/web=data-0", "--channel=s3:/corpus/code=data-1"]
    assert json.loads(job["Environment"]["TRAINWAY_LOCATIONS"])["s3"] == f"s3://{BUCKET}"


def test_the_file_system_is_mounted_whole_and_has_the_runs_directory(tmp_path: Path, hand_off: HandOff) -> None:
    launch = request(tmp_path, on_sagemaker(hand_off), data={"train": "fsx:/scratch/web"})
    job = rendered(launch, data="fsx")
    source = job["InputDataConfig"][1]["DataSource"]["FileSystemDataSource"]
    assert (source["DirectoryPath"], source["FileSystemId"]) == ("/abcdefgh", "fs-0123456789abcdef0")
    assert json.loads(job["Environment"]["TRAINWAY_LOCATIONS"])["fsx"] == "/opt/ml/input/data/fsx"
    assert job["Environment"]["TRAINWAY_RUN"] == "/opt/ml/input/data/fsx/runs/small-1"
    assert "TRAINWAY_RUN_LOCATION" not in job["Environment"], "the file system mirrors it"
    with pytest.raises(UsageError, match=r"scratch.*--data fsx"):
        rendered(launch)


def test_spot_waits_on_top_of_its_run_and_other_jobs_wait_before_it(tmp_path: Path, hand_off: HandOff) -> None:
    launch = request(tmp_path, on_sagemaker(hand_off))
    spot = rendered(launch, spot=True, time_limit_minutes=60, wait_minutes=30)
    assert spot["EnableManagedSpotTraining"] is True
    assert spot["StoppingCondition"] == {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 5400}
    reserved = rendered(launch, time_limit_minutes=60, wait_minutes=30, training_plan=PLAN)
    assert reserved["StoppingCondition"] == {"MaxRuntimeInSeconds": 3600, "MaxPendingTimeInSeconds": 1800}
    assert reserved["ResourceConfig"]["TrainingPlanArn"] == PLAN


def test_a_type_without_disks_gets_one_and_no_check_of_gpus_that_it_does_not_have(
    tmp_path: Path, hand_off: HandOff
) -> None:
    launch = request(tmp_path, on_sagemaker(hand_off, instance_type="m7i.8xlarge"))
    job = rendered(launch, volume_gb=500, volume_key=KEY)
    assert (job["ResourceConfig"]["VolumeSizeInGB"], job["ResourceConfig"]["VolumeKmsKeyId"]) == (500, KEY)
    assert "InfraCheckConfig" not in job
    assert problems("sagemaker", "CreateTrainingJob", job) == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"time_limit_minutes": 0}, "time limit is 0 minutes"),
        ({"time_limit_minutes": 40321}, "choose 1 to 40320 minutes"),
        ({"wait_minutes": 29}, "choose 30 to 40320"),
        ({"retries": 31}, "choose 0 to 30"),
        ({"warm_minutes": 361}, "choose 0 to 360"),
        ({"spot": True, "warm_minutes": 1}, "not kept warm"),
        ({"spot": True, "training_plan": PLAN}, "reserved, and not spot"),
        ({"volume_gb": 100}, "disks of its own"),
    ],
)
def test_what_sagemaker_does_not_do_is_explained_before_anything_is_submitted(
    options: dict[str, Any], why: str, tmp_path: Path, hand_off: HandOff
) -> None:
    with pytest.raises(UsageError, match=why):
        rendered(request(tmp_path, on_sagemaker(hand_off)), **options)


def test_a_platform_without_training_jobs_says_how_to_get_them(tmp_path: Path, hand_off: HandOff) -> None:
    with pytest.raises(UsageError, match=r"iam\.training_jobs .* to true, and deploy"):
        rendered(request(tmp_path, hand_off))


def test_a_type_that_sagemaker_has_not_is_refused(tmp_path: Path, hand_off: HandOff) -> None:
    with pytest.raises(UsageError, match=r"knows no ml\.gr6\.8xlarge for training jobs"):
        rendered(request(tmp_path, on_sagemaker(hand_off, instance_type="gr6.8xlarge")))


def test_more_locations_than_channels_are_refused(tmp_path: Path, hand_off: HandOff) -> None:
    blend = {f"s3:/corpus/part-{number}": 0.01 for number in range(19)}
    launch = request(tmp_path, on_sagemaker(hand_off), data={"train": "fsx:/corpus/web", "blend": blend})
    with pytest.raises(UsageError, match=r"20 locations.*20 channels"):
        rendered(launch, data="file")


def test_a_run_whose_name_sagemaker_does_not_take_is_refused(tmp_path: Path, hand_off: HandOff) -> None:
    for run in ("a_b", "-a", "a" * 53):
        with pytest.raises(UsageError, match="52 letters"):
            rendered(request(tmp_path, on_sagemaker(hand_off), run=run))


def test_a_dry_run_prints_what_the_aws_cli_takes(tmp_path: Path, hand_off: HandOff) -> None:
    job = rendered(request(tmp_path, on_sagemaker(hand_off)))
    assert json.loads(as_json(job)) == job
    assert not any(character in as_json(job) for character in itertools.chain("\t", "\r"))


def test_pytorch_warns_of_no_variable_of_the_launcher(tmp_path: Path) -> None:
    group = "init_process_group('gloo', rank=0, world_size=1, init_method='file://' + sys.argv[1])"
    program = f"import sys, torch.distributed as d; d.{group}; d.destroy_process_group()"
    told = {**os.environ, **job_environment(tmp_path / "job.yaml", tmp_path)}
    command = [sys.executable, "-c", program, str(tmp_path / "store")]
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=True, timeout=1800)
    assert "deprecated" not in done.stderr
