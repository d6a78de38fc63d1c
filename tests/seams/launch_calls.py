"""What the launcher calls for a person who launches, watches, and stops a run, recorded while it does so.

An emulated AWS answers. Stand-ins for kubectl and the AWS CLI let the launcher say which commands a person runs.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.model import OperationModel

from tests.launch.conftest import write_job
from tests.people import with_people
from tests.seams.resolved import ACCOUNT, deployed_of
from tests.seams.shapes import IN_ONE_REGION, SHAPES_FILE
from tests.seams.stacks import NAME_OF_SHAPES, files_of
from tests.synthesis import EXAMPLES
from trainway.launch import sagemaker
from trainway.launch.kubernetes.context import find_context
from trainway.launch.kubernetes.gpu_use import workspace_endpoint
from trainway.launch.platform.hand_off import read_hand_off, read_image
from trainway.launch.registry.connections import registry_of
from trainway.launch.runs.evidence import evidence_of_handle
from trainway.launch.sagemaker.logs import GROUP
from trainway.launch.starting.code import sync
from trainway.launch.starting.prepare import Launch as Asked
from trainway.launch.starting.start import points_of, start
from trainway.spec.errors import UsageError
from trainway.spec.handoff import BuiltImage, HandOff
from trainway.spec.handoff_names import image_parameter_name, metrics_workspace_alias
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.verify.cluster_nodes import repair_requests, send
from trainway.verify.repairs import FaultyNode, Repair

RUN = "small-1"
DIGEST = f"@sha256:{'5e' * 32}"


@dataclass(frozen=True)
class Call:
    """A call of AWS's API: the service, the operation, and its parameters."""

    service: str
    operation: str
    parameters: dict[str, Any]


@dataclass
class Launch:
    """The calls of each phase, `launch`, `watch`, `stop`, and `repair`, and the commands of the AWS CLI beside them.

    `cluster_arn` is the ARN of the platform's cluster.
    """

    calls: dict[str, list[Call]] = field(default_factory=dict)
    commands: dict[str, list[list[str]]] = field(default_factory=dict)
    cluster_arn: str = ""


def record(name: str, team: str, directory: Path) -> Launch:
    """Launch, watch, and stop a run for a team of a deployed platform.

    The run is a SageMaker training job if the platform has a role for such jobs. Otherwise it is recorded up to the
    point where kubectl takes over.
    """
    recorded, platform_file = Launch(), _platform_file(name, directory)
    platform, code = load_platform(platform_file), directory / "code"
    code.mkdir()
    (code / "mine.py").write_text("", encoding="utf-8")
    with _aws(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        _deploy(name, platform)
        with _recording(recorded, "watch"):
            hand_off = read_hand_off(platform)
        recorded.cluster_arn = hand_off.cluster.arn
        recorded.commands["watch"] = [_kubeconfig(directory, hand_off, patch)]
        if platform.orchestrator.is_hyperpod:
            _record_repairs(recorded, hand_off)
            _record_use(recorded, name, hand_off)
        if hand_off.training_jobs:
            _record_training_job(recorded, platform_file, team, code)
        else:
            with _recording(recorded, "launch"):
                read_image(platform, hand_off)
                sync(code, hand_off, team=team)
    return recorded


def _record_training_job(recorded: Launch, platform_file: Path, team: str, code: Path) -> None:
    from moto.sagemaker.models import sagemaker_backends

    region, data = load_platform(platform_file).region, {"train": f"s3:/corpus/{team}/web"}
    job_file = write_job(code.parent, team=team, data=data, batch={"global": 128, "micro": 1})
    with _recording(recorded, "launch"):
        start(sagemaker.TARGET, Asked(points_of(job_file, []), platform_file, run=RUN, code=str(code)), {})
        # Colleagues find the run, and a launch that cannot be submitted takes its record back.
        [record_of_run] = registry_of(read_hand_off(load_platform(platform_file))).records([team])
        registry_of(read_hand_off(load_platform(platform_file))).release(record_of_run)
    job, handle = sagemaker_backends[ACCOUNT][region].training_jobs[RUN], {"name": RUN, "region": region}
    # The emulated SageMaker is done with a job at once.
    job.training_job_status, job.secondary_status = "InProgress", "Training"
    setattr(job, "remote_debug_config", {"EnableRemoteDebug": True})  # noqa: B010 - the emulation has no such field
    _write_log(region)
    with _recording(recorded, "watch"):
        assert sagemaker.state(handle).phase.value == "running"
        assert list(sagemaker.logs(handle, follow=False)) == ["[0 0] step=1/9"]
        evidence_of_handle("sagemaker", handle)
    # The emulated SageMaker has no StopTrainingJob. The call is recorded before it is refused.
    with _recording(recorded, "stop"), suppress(NotImplementedError):
        sagemaker.stop(handle)
    recorded.commands["shell"] = [list(sagemaker.shell(handle, 0))]


def _record_repairs(recorded: Launch, hand_off: HandOff) -> None:
    """Repair a node in each way. The emulated SageMaker has the nodes, but lacks the operations."""
    from moto.sagemaker.models import sagemaker_backends

    name, group, instance = hand_off.cluster.name, hand_off.node_groups[0].name, "i-0123456789abcdef0"
    shape = {
        "InstanceGroupName": group,
        "InstanceType": "ml.m5.xlarge",
        "InstanceCount": 1,
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-x/y", "OnCreate": "on_create.sh"},
        "ExecutionRole": f"arn:aws:iam::{ACCOUNT}:role/nodes",
        "ThreadsPerCore": 1,
    }
    boto3.client("sagemaker", hand_off.region).create_cluster(ClusterName=name, InstanceGroups=[shape])
    (node,) = sagemaker_backends[ACCOUNT][hand_off.region].clusters[name].nodes.values()
    # The emulation's node IDs are not instance IDs.
    node.instance_id = instance
    for repair in Repair:
        with _recording(recorded, "repair"), pytest.MonkeyPatch.context() as patch:
            # trainway/price/asked.py asks with a session of its own.
            patch.setattr(boto3, "Session", boto3._get_default_session)
            repairs = [FaultyNode(f"hyperpod-{instance}", repair, ())]
            (request,), _ = repair_requests(repairs, hand_off, group)
            # moto does not have the operations. The call is recorded before moto refuses it.
            with suppress(NotImplementedError):
                send(request, hand_off.region)


def _record_use(recorded: Launch, name: str, hand_off: HandOff) -> None:
    """Look for the workspace with the use of the GPUs. Its name is that of the policies, which the service chooses."""
    from moto.amp.models import amp_backends

    (arn,) = (each for each in deployed_of(name).arns if each.startswith("arn:aws:aps:"))
    workspaces = amp_backends[ACCOUNT][hand_off.region].workspaces
    amp = boto3.client("amp", hand_off.region)
    created = amp.create_workspace(alias=metrics_workspace_alias(hand_off.platform, is_hyperpod=True))["workspaceId"]
    workspace = workspaces.pop(created)
    workspace.workspace_id = arn.rpartition("/")[2]
    workspaces[workspace.workspace_id] = workspace
    with _recording(recorded, "watch"):
        assert workspace_endpoint(hand_off)


def _platform_file(name: str, directory: Path) -> Path:
    """Return the platform file of an example, or of a shape with the name that all shapes deploy under."""
    for file in EXAMPLES:
        if file.stem == name:
            return file
    shape = yaml.safe_load(SHAPES_FILE.read_text(encoding="utf-8"))[name]
    file = directory / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people({"name": NAME_OF_SHAPES, **IN_ONE_REGION, **shape})), encoding="utf-8")
    return file


@contextmanager
def _aws() -> Iterator[None]:
    from moto import mock_aws

    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("MOTO_ACCOUNT_ID", ACCOUNT)
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        boto3.setup_default_session()
        yield


def _deploy(name: str, platform: Platform) -> None:
    """Write what a deploy leaves behind: the hand-off with its document, the bucket, and the built image."""
    region = platform.region
    parameters = deployed_of(name).of_type("AWS::SSM::Parameter").values()
    (pointer,) = (each for each in parameters if each["Name"].endswith("/hand-off"))
    place, ssm, s3 = json.loads(pointer["Value"]), boto3.client("ssm", region), boto3.client("s3", "us-east-1")
    ssm.put_parameter(Name=pointer["Name"], Type="String", Value=pointer["Value"], Tier="Advanced")
    s3.create_bucket(Bucket=place["bucket"])
    for key, text in files_of(name).items():
        s3.put_object(Bucket=place["bucket"], Key=key, Body=text.encode())
    hand_off = read_hand_off(platform)
    s3.create_bucket(Bucket=hand_off.bucket)
    for team in hand_off.teams:
        s3.put_object(Bucket=hand_off.bucket, Key=f"corpus/{team}/web/0.jsonl", Body=b"")
    if hand_off.training_jobs:
        _make_subnets(region, set(hand_off.training_jobs.subnet_ids.values()))
    built = BuiltImage(uri=hand_off.image_uri, pinned=hand_off.image_uri.rpartition(":")[0] + DIGEST)
    ssm.put_parameter(Name=image_parameter_name(platform.name), Type="String", Value=built.model_dump_json())


def _make_subnets(region: str, names: set[str]) -> None:
    """Make a subnet of each name. EC2 chooses the names of subnets itself, so the emulation's own are renamed."""
    from moto.ec2.models import ec2_backends

    ec2, known = boto3.client("ec2", region), ec2_backends[ACCOUNT][region].subnets
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    for number, name in enumerate(sorted(names)):
        made = ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24")["Subnet"]
        subnet = known[made["AvailabilityZone"]].pop(made["SubnetId"])
        subnet.id = name
        known[made["AvailabilityZone"]][name] = subnet


def _write_log(region: str) -> None:
    logs, stream = boto3.client("logs", region), f"{RUN}/algo-1-1700000000"
    logs.create_log_group(logGroupName=GROUP)
    logs.create_log_stream(logGroupName=GROUP, logStreamName=stream)
    event = {"timestamp": int(time.time() * 1000), "message": "[default0]:step=1/9"}
    logs.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=[event])


@contextmanager
def _recording(launch: Launch, phase: str) -> Iterator[None]:
    """Record the calls of every client that is made in the block."""
    calls = launch.calls.setdefault(phase, [])

    def record(params: dict[str, Any], model: OperationModel, **_: Any) -> None:
        calls.append(Call(model.service_model.service_name, model.name, dict(params)))

    events = boto3._get_default_session().events
    events.register("provide-client-params", record)
    yield
    events.unregister("provide-client-params", record)


def _kubeconfig(directory: Path, hand_off: HandOff, patch: pytest.MonkeyPatch) -> list[str]:
    """Return the command that the launcher asks for where the kubeconfig has no context for the cluster."""
    kubectl = directory / "kubectl"
    kubectl.write_text("#!/bin/sh\necho '{}'\n", encoding="utf-8")
    kubectl.chmod(0o755)
    patch.setenv("PATH", str(directory), prepend=":")
    with pytest.raises(UsageError) as raised:
        find_context(hand_off)
    found = re.search(r"aws eks update-kubeconfig.*", str(raised.value))
    assert found
    return shlex.split(found[0])
