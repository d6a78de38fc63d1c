"""A deployed platform that is well is told nothing, and one run reports all that is wrong with another."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from typer.testing import CliRunner

from emulator import Emulator, running
from tests.hand_offs import hand_off_in
from tests.synthesis import ROOT, assembly_in
from trainway.cli import app
from trainway.doctor.checks import DEPLOYED_CHECKS
from trainway.doctor.tools import tools
from trainway.launch.kubernetes.context import eks_arn
from trainway.spec.handoff import HandOff
from trainway.spec.handoff_names import image_parameter_name, parameter_name
from trainway.spec.kubernetes.addons import addon_names
from trainway.spec.loader import load_platform

EXAMPLE = ROOT / "examples" / "eks-p5.yaml"
SLURM = ROOT / "examples" / "hyperpod-slurm-p5en.yaml"
PLATFORM = load_platform(EXAMPLE)
ACCOUNT, REGION = "123456789012", "us-west-2"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/nodes"
SUBNETS = ["subnet-0123456789abcdef0", "subnet-0fedcba9876543210"]
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
Client = Callable[[str], Any]


class ReadyApi(BaseHTTPRequestHandler):
    """A Kubernetes API that answers one question."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path.startswith("/readyz") else 404)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def client(emulator: Emulator) -> Client:
    session = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=REGION)
    create: Any = session.client
    return lambda service: create(service, endpoint_url=emulator.endpoint)


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), ReadyApi)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def environment(
    emulator: Emulator, client: Client, api: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Deploy what the checks look at, and return the environment of a machine that has every tool."""
    deploy(client, emulator)
    directory = tmp_path_factory.mktemp("machine")
    for name in ("aws", "session-manager-plugin"):
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    # The real kubectl, of the version that the cluster has.
    minor = PLATFORM.kubernetes_or_default.version.partition(".")[2]
    said = json.dumps({"clientVersion": {"major": "1", "minor": minor}})
    script = f'#!/bin/sh\n[ "$1" != version ] || exec echo \'{said}\'\nexec {shutil.which("kubectl")} "$@"\n'
    (directory / "kubectl").write_text(script)
    (directory / "kubectl").chmod(0o755)
    told = hand_off("fs-0123456789abcdef0")
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": eks_arn(told), "cluster": {"server": api}}],
        "contexts": [{"name": "atlas", "context": {"cluster": eks_arn(told), "user": "me"}}],
        "users": [{"name": "me", "user": {}}],
        "current-context": "atlas",
    }
    (directory / "kubeconfig").write_text(yaml.safe_dump(config))
    path = f"{directory}{os.pathsep}{os.environ['PATH']}"
    return emulator.environment() | {"PATH": path, "KUBECONFIG": str(directory / "kubeconfig")}


def hand_off(file_system: str) -> HandOff:
    told = hand_off_in(assembly_in(EXAMPLE))
    cluster = told.cluster.model_copy(update={"arn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/atlas", "name": "atlas"})
    system = told.mounted.model_copy(update={"file_system_id": file_system})
    return told.model_copy(update={"cluster": cluster, "file_system": system})


def deploy(client: Client, emulator: Emulator) -> None:
    system = client("fsx").create_file_system(FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=SUBNETS[:1])
    told = hand_off(system["FileSystem"]["FileSystemId"])
    client("ssm").put_parameter(
        Name=parameter_name("atlas"), Value=told.model_dump_json(), Type="String", Tier="Advanced"
    )
    client("ecr").create_repository(repositoryName="atlas/training")
    manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": {}, "layers": []})
    image = {"imageManifest": manifest, "imageManifestMediaType": MANIFEST, "imageTag": "1"}
    put = client("ecr").put_image(repositoryName="atlas/training", **image)
    uri = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/atlas/training"
    built = {"uri": f"{uri}:1", "pinned": f"{uri}@{put['image']['imageId']['imageDigest']}"}
    client("ssm").put_parameter(Name=image_parameter_name("atlas"), Value=json.dumps(built), Type="String")
    resources = {"Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}
    template = json.dumps({"Description": "Trainway atlas: network", "Resources": resources})
    client("cloudformation").create_stack(StackName="atlas-network", TemplateBody=template)
    eks = client("eks")
    eks.create_cluster(
        name="atlas",
        roleArn=ROLE,
        resourcesVpcConfig={"subnetIds": SUBNETS},
    )
    eks.create_nodegroup(clusterName="atlas", nodegroupName="train", subnets=SUBNETS[:1], nodeRole=ROLE)
    addons = [{"addonName": name, "clusterName": "atlas", "status": "ACTIVE"} for name in addon_names(PLATFORM)]
    emulator.hold(addons=addons)


def run(environment: dict[str, str], *options: str, file: Path = EXAMPLE) -> tuple[int, list[dict[str, Any]]]:
    ran = CliRunner().invoke(app, ["doctor", str(file), "--json", *options], env=environment)
    assert ran.exit_code in (0, 1), (ran.output, ran.exception)
    return ran.exit_code, json.loads(ran.stdout)["findings"]


def test_a_platform_that_is_well_is_told_nothing(environment: dict[str, str]) -> None:
    assert run(environment, "--strict") == (0, [])


def test_one_run_finds_all_that_is_wrong(environment: dict[str, str], emulator: Emulator, client: Client) -> None:
    (system,) = client("fsx").describe_file_systems()["FileSystems"]
    issue = {"code": "InsufficientNumberOfReplicas", "message": "The add-on is unhealthy"}
    degraded = {"addonName": "coredns", "clusterName": "atlas", "status": "DEGRADED", "health": {"issues": [issue]}}
    present = [{"addonName": name, "clusterName": "atlas", "status": "ACTIVE"} for name in addon_names(PLATFORM)[2:]]
    lost = {"code": "Ec2SubnetInvalidConfiguration", "message": "no address is free", "resourceIds": ["train"]}
    link = {
        "AssociationId": "dra-0123456789abcdef0",
        "FileSystemId": system["FileSystemId"],
        "Lifecycle": "MISCONFIGURED",
        "FileSystemPath": "/corpus",
        "DataRepositoryPath": "s3://corpora/corpus",
        "FailureDetails": {"Message": "the bucket was deleted"},
    }
    emulator.hold(
        addons=[each for each in present if each["addonName"] != "coredns"] + [degraded],
        node_group_issues=[lost],
        file_system_states={system["FileSystemId"]: "MISCONFIGURED"},
        data_repository_associations=[link],
    )
    client("ecr").delete_repository(repositoryName="atlas/training", force=True)
    client("cloudformation").delete_stack(StackName="atlas-network")
    client("logs").create_log_group(logGroupName="/aws/eks/atlas/cluster")
    broken = environment | {"KUBECONFIG": str(Path(environment["KUBECONFIG"]).with_name("nothing"))}
    status, findings = run(broken)
    assert status == 1
    said = {(each["check"], each["level"]): each for each in findings}
    first, second = addon_names(PLATFORM)[:2]
    expected = {
        ("cluster", "warning"): ("does not answer kubectl", "aws eks update-kubeconfig --name atlas"),
        ("deployed-addons", "error"): ("the add-on coredns is DEGRADED", "aws eks describe-addon"),
        ("deployed-file-system", "error"): ("is MISCONFIGURED", "aws fsx describe-file-systems"),
        ("deployed-file-system", "warning"): ("the link of /corpus to s3://corpora/corpus", "the bucket"),
        ("deployed-stacks", "error"): ("the platform atlas is not deployed", "make deploy"),
        ("image-digest", "error"): ("the image image is gone from ECR", "trainway image rebuild"),
        ("log-retention", "warning"): ("/aws/eks/atlas/cluster stay for ever", "put-retention-policy"),
        ("nodes", "error"): ("the node group train has the issue Ec2SubnetInvalidConfiguration", "API_Issue.html"),
    }
    assert said.keys() == expected.keys()
    addons = [each["what"] for each in findings if each["check"] == "deployed-addons"]
    assert addons == [f"the cluster has no add-on {first}", f"the cluster has no add-on {second}",
                      "the add-on coredns is DEGRADED"]  # fmt: skip
    for key, (what, fix) in expected.items():
        assert what in said[key]["what"] and fix in said[key]["fix"], said[key]


def test_whoever_has_not_confirmed_is_told_nothing_by_sns(
    environment: dict[str, str], emulator: Emulator, client: Client
) -> None:
    sns = client("sns")
    ours, theirs = (sns.create_topic(Name=name)["TopicArn"] for name in ("atlas-observability-Topic-1", "theirs"))
    for topic, address in ((ours, "me@example.com"), (ours, "you@example.com"), (theirs, "them@example.com")):
        sns.subscribe(TopicArn=topic, Protocol="email", Endpoint=address)
    skipped = [option for each in DEPLOYED_CHECKS if each.name != "subscriptions" for option in ("--skip", each.name)]
    emulator.hold(confirmed=["you@example.com"])
    _, findings = run(environment, *skipped, "--skip", "tools")
    (found,) = findings
    assert found["what"] == "me@example.com has not confirmed that it is told"
    assert found["level"] == "warning" and f"--topic-arn {ours} --protocol email" in found["fix"]
    emulator.hold(confirmed=["you@example.com", "me@example.com"])
    assert run(environment, *skipped, "--skip", "tools") == (0, [])


def test_a_platform_that_is_not_deployed_is_told_once(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(EXAMPLE.read_text().replace("name: atlas", "name: nowhere"))
    status, findings = run(environment, file=file)
    assert status == 1
    (found,) = [each for each in findings if each["check"] == "hand-off"]
    assert found["fix"] == "`make deploy` deploys it"
    (unknown,) = [each for each in findings if each["check"] == "deployed-file-system"]
    assert (unknown["level"], unknown["fix"]) == ("not checked", "mend what hand-off reports first")


def test_nodes_of_hyperpod_that_do_not_run_are_found(environment: dict[str, str], emulator: Emulator) -> None:
    platform = yaml.safe_load(SLURM.read_text())
    group = platform["node_groups"][0]
    shape = {
        "InstanceGroupName": group["name"],
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 1,
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-x/y", "OnCreate": "on_create.sh"},
        "ExecutionRole": ROLE,
        "ThreadsPerCore": 1,
    }
    sagemaker = boto3.client("sagemaker", region_name=platform["region"], endpoint_url=emulator.endpoint)
    sagemaker.create_cluster(ClusterName=platform["name"], InstanceGroups=[shape])
    skipped = [option for each in DEPLOYED_CHECKS if each.name != "nodes" for option in ("--skip", each.name)]
    _, findings = run(environment, *skipped, "--skip", "tools", file=SLURM)
    (found,) = [each for each in findings if each["key"] == "node_groups[0].count"]
    assert found["what"] == f"1 of the {group['count']} nodes of {group['name']} run"
    assert f"list-cluster-events --cluster-name {platform['name']}" in found["fix"]


def test_logs_of_hyperpod_that_stay_for_ever_are_found(environment: dict[str, str], emulator: Emulator) -> None:
    """The ID of the cluster is in the name of the group, and is known to AWS only."""
    platform = load_platform(SLURM)
    logs = boto3.client("logs", region_name=platform.region, endpoint_url=emulator.endpoint)
    name = f"/aws/sagemaker/Clusters/{platform.name}/abcdefghijkl"
    logs.create_log_group(logGroupName=name)
    skipped = [option for each in DEPLOYED_CHECKS if each.name != "log-retention" for option in ("--skip", each.name)]
    _, findings = run(environment, *skipped, "--skip", "tools", file=SLURM)
    (found,) = findings
    assert found["what"] == f"the logs in {name} stay for ever"
    assert found["fix"].startswith(f"aws logs put-retention-policy --log-group-name {name} --retention-in-days 90 ")
    logs.put_retention_policy(logGroupName=name, retentionInDays=90)
    assert run(environment, *skipped, "--skip", "tools", file=SLURM) == (0, [])


def test_each_tool_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told = {each.what: each.level.value for each in tools(PLATFORM)}
    optional = {"the AWS CLI is not on PATH": "note", "the Session Manager plugin is not on PATH": "note"}
    assert told == {"kubectl is not on PATH": "error"} | optional
    under_slurm = {each.what: each.level.value for each in tools(load_platform(SLURM))}
    assert under_slurm == dict.fromkeys(optional, "error")


def test_tools_of_other_versions_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = {"clientVersion": {"major": "1", "minor": "20+"}}
    for name, said in (("kubectl", json.dumps(old)), ("node", "v16.3.0")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    told = {each.what: each.fix for each in tools(PLATFORM) if "PATH" not in each.what}
    version = PLATFORM.kubernetes_or_default.version
    assert f"kubectl is 1.20, and the cluster {version}" in told
    assert told["Node is v16.3.0"] == "install Node 18 or newer"
