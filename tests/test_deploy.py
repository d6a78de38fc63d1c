"""Every orchestrator's example, deployed and destroyed by the real CDK command line on the emulated AWS."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from emulator import EVERYWHERE, Emulator, running
from emulator.ssm_limits import ADVANCED_BYTES
from tests.known_day import KNOWN_DAY
from tests.owners_vpc import Ids, make_vpc
from tests.people import ADMIN
from tests.synthesis import ROOT
from trainway.launch.platform.hand_off import read_hand_off
from trainway.spec import strict_yaml
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import HandOff
from trainway.spec.handoff_names import parameter_name
from trainway.spec.kubernetes.publications import publications
from trainway.spec.loader import load_platform
from trainway.spec.platform import MOST_NODE_GROUPS, Platform
from trainway.spec.teams.rules import MOST_TEAMS_WITH_PREFIXES

NODE = Path(sys.executable).with_name("node")
Bootstrap = Callable[[str], str]
CDK = [str(NODE), str(ROOT / "node_modules/aws-cdk/bin/cdk")]


# tests/test_platform_journey.py deploys a platform with Slurm. tests/test_upgrade.py deploys all examples, without the
# command line.
DEPLOYED = {name: ROOT / "examples" / f"{name}.yaml" for name in ("closed-hyperpod-eks", "eks-p5")}
# The emulated account owns neither the reservation and the training plans of the examples nor their account number.
NOT_OWNED = "credentials reservations training-plans"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        started.publish(**publications(load_catalogue(), KNOWN_DAY), region=EVERYWHERE)
        yield started


@pytest.fixture(scope="module")
def bootstrap(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Bootstrap:
    """Return what bootstraps a Region of the emulated account, once for all tests."""
    out = str(tmp_path_factory.mktemp("bootstrap"))
    return cache(lambda region: cdk(emulator, "bootstrap", f"aws://123456789012/{region}", "--output", out))


def cdk(emulator: Emulator, *arguments: str) -> str:
    return succeeds(emulator, *CDK, *arguments)


def succeeds(emulator: Emulator, *command: str, answer: str = "") -> str:
    path = {"PATH": f"{NODE.parent}:{os.environ['PATH']}", "SKIP_CHECKS": NOT_OWNED}
    environment = emulator.child_environment() | path
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, input=answer)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout + ran.stderr


def emulator_client(emulator: Emulator, service: str, region: str) -> Any:
    return boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=emulator.endpoint,
        region_name=region,
        aws_access_key_id="emulator",
        aws_secret_access_key="emulator",
    )


def hand_off_of(emulator: Emulator, platform: Platform) -> HandOff:
    """Return what the launcher reads of a deployed platform."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        for name, value in emulator.environment().items():
            patch.setenv(name, value)
        return read_hand_off(platform)


@pytest.mark.exhaustive
@pytest.mark.parametrize("example", DEPLOYED)
def test_an_example_is_deployed_unchanged_and_destroyed(
    example: str, emulator: Emulator, bootstrap: Bootstrap, tmp_path: Path
) -> None:
    platform = load_platform(DEPLOYED[example])
    bootstrap(platform.region)
    # The deploy writes a lock beside the file.
    file = tmp_path / "platform.yaml"
    shutil.copy(DEPLOYED[example], file)
    assembly = str(tmp_path / "assembly")
    app = ["--context", f"platform={file}", "--output", assembly]

    # What `make deploy` does: stacks side by side, after one question. Who is allowed what is a long list.
    asked = succeeds(emulator, "scripts/deploy", "--all", "--progress=events", *app, answer="s\ny\n")
    assert f"{platform.name} in account 123456789012 in {platform.region}: 1 warning, " in asked, "no error"
    assert re.search(r"Permissions and security groups: \d{3,} rows are added and 0 removed", asked)
    assert "IAM Statement Changes" in asked
    assert f"{platform.name}-network: a new stack" in asked
    assert load_platform(file).lock.subnets
    hand_off = hand_off_of(emulator, platform)
    assert hand_off.orchestrator == platform.orchestrator.value
    assert hand_off.mounted.file_system_id.startswith("fs-")
    assert hand_off.cluster.arn.startswith("arn:aws:")

    differences = cdk(emulator, "diff", *app)
    assert "Number of stacks with differences: 0" in differences, differences

    cdk(emulator, "destroy", "--all", "--force", "--app", assembly)
    # Those of an earlier platform of the same name are the same ones.
    left = Counter(
        resource["type"] for resource in emulator.resources() if resource["stack"].startswith(f"{platform.name}-")
    )
    of_control_plane = {"AWS::Logs::LogGroup": 1} if platform.orchestrator.is_kubernetes else {}
    assert left == {"AWS::S3::Bucket": 2} | of_control_plane, "only buckets and the control plane's logs are kept"


@pytest.mark.exhaustive
def test_a_platform_moves_into_a_network_that_exists_and_out_of_it_again(
    emulator: Emulator, bootstrap: Bootstrap, tmp_path: Path
) -> None:
    """Everything that was there is there afterwards, as it was."""
    ec2 = emulator_client(emulator, "ec2", "us-west-2")
    there = make_vpc(ec2)
    before = state_of(ec2, there)
    file = tmp_path / "platform.yaml"
    platform = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text()) | {"name": "tenant"}
    file.write_text(strict_yaml.dump(platform))
    chosen = ["--subnet", f"nodes-train={there['nodes']}", "--security-group", there["group"]]
    adopt = [sys.executable, "-m", "trainway.cli", "adopt", there["vpc"], "--platform", str(file), *chosen]
    environment = emulator.child_environment()
    printed = subprocess.run(adopt, env=environment, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    network = yaml.safe_load(printed)["network"]
    file.write_text(strict_yaml.dump(platform | {"network": {"cidr": "10.21.0.0/16", **network}}))

    bootstrap("us-west-2")
    assembly = str(tmp_path / "assembly")
    app = ["--context", f"platform={file}", "--output", assembly]
    cdk(emulator, "deploy", "--all", "--require-approval=never", "--progress=events", *app)
    during = state_of(ec2, there)
    assert during["subnets"] > before["subnets"]
    assert during["rules"] > before["rules"]
    looked_again = subprocess.run(adopt, env=environment, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert yaml.safe_load(looked_again)["network"] == network

    cdk(emulator, "destroy", "--all", "--force", "--app", assembly)
    assert state_of(ec2, there) == before


@pytest.mark.exhaustive
def test_the_largest_platform_is_deployed_and_its_hand_off_is_read(
    emulator: Emulator, bootstrap: Bootstrap, tmp_path: Path
) -> None:
    """The document of as many node groups and teams as a platform can have is too large for a parameter."""
    names = [f"{'n' * 16}-{number:02d}" for number in range(MOST_NODE_GROUPS)]
    platform = {
        "name": "large",
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "node_groups": [{"name": name, "instance_type": "p5.48xlarge", "count": 0, "max_count": 1} for name in names],
        "teams": [{"name": f"{'t' * 20}-{number:02d}"} for number in range(MOST_TEAMS_WITH_PREFIXES)],
        "kubernetes": {"admins": [ADMIN]},
        "network": {"cidr": "10.0.0.0/16"},
        "iam": {"training_jobs": True},
    }
    file = tmp_path / "platform.yaml"
    file.write_text(strict_yaml.dump(platform))
    bootstrap("us-west-2")
    assembly = str(tmp_path / "assembly")
    app = ["--context", f"platform={file}", "--output", assembly]
    cdk(emulator, "deploy", "--all", "--require-approval=never", "--progress=events", *app)

    hand_off = hand_off_of(emulator, load_platform(file))
    assert [group.name for group in hand_off.node_groups] == names
    assert hand_off.training_jobs is not None
    subnets = hand_off.training_jobs.subnet_ids
    assert list(subnets) == names and len(set(subnets.values())) == len(names)
    assert len(hand_off.model_dump_json()) > ADVANCED_BYTES
    ssm = emulator_client(emulator, "ssm", "us-west-2")
    kept = ssm.get_parameter(Name=parameter_name("large"))["Parameter"]["Value"]
    assert len(kept) < ADVANCED_BYTES
    cdk(emulator, "destroy", "--all", "--force", "--app", assembly)


def state_of(ec2: Any, there: Ids) -> dict[str, set[str]]:
    """What is in the VPC, and the rules of its owner's security group."""
    here = [{"Name": "vpc-id", "Values": [there["vpc"]]}]
    (group,) = ec2.describe_security_groups(GroupIds=[there["group"]])["SecurityGroups"]
    (vpc,) = ec2.describe_vpcs(VpcIds=[there["vpc"]])["Vpcs"]
    return {
        "ranges": {each["CidrBlock"] for each in vpc["CidrBlockAssociationSet"]},
        "subnets": {subnet["SubnetId"] for subnet in ec2.describe_subnets(Filters=here)["Subnets"]},
        "tables": {table["RouteTableId"] for table in ec2.describe_route_tables(Filters=here)["RouteTables"]},
        "endpoints": {e["VpcEndpointId"] for e in ec2.describe_vpc_endpoints(Filters=here)["VpcEndpoints"]},
        "groups": {each["GroupId"] for each in ec2.describe_security_groups(Filters=here)["SecurityGroups"]},
        "rules": {
            f"{direction} {rule['IpProtocol']} {rule.get('FromPort')} {pair['GroupId']}"
            for direction in ("IpPermissions", "IpPermissionsEgress")
            for rule in group[direction]
            for pair in rule["UserIdGroupPairs"]
        },
    }


@pytest.mark.exhaustive
def test_what_a_destroy_keeps_the_next_deploy_finds(emulator: Emulator, bootstrap: Bootstrap, tmp_path: Path) -> None:
    """A platform's data is in the same bucket before and after, under the name that the hand-off gives.

    The file system has no copies of its files, so that the bucket is all that is left of them.
    """
    file = tmp_path / "platform.yaml"
    platform = yaml.safe_load((ROOT / "examples" / "eks-scratch.yaml").read_text()) | {"name": "phoenix"}
    file.write_text(strict_yaml.dump(platform))
    region = platform["region"]
    bootstrap(region)
    assembly = str(tmp_path / "assembly")
    app = ["--context", f"platform={file}", "--output", assembly]
    deploy = ["deploy", "--all", "--import-existing-resources", "--require-approval=never", "--progress=events", *app]
    s3 = emulator_client(emulator, "s3", region)

    def hand_off() -> HandOff:
        return hand_off_of(emulator, load_platform(file))

    cdk(emulator, *deploy)
    before = hand_off()
    described = emulator_client(emulator, "fsx", region).describe_file_systems(
        FileSystemIds=[before.mounted.file_system_id]
    )
    (file_system,) = described["FileSystems"]
    assert file_system["LustreConfiguration"]["DeploymentType"] == "SCRATCH_2"
    s3.put_object(Bucket=before.bucket, Key="checkpoints/x/step-00000001/.metadata", Body=b"weights")
    made = Counter(each["type"] for each in emulator.resources() if each["stack"].startswith("phoenix-"))
    assert made.keys() >= {"AWS::ECR::Repository", "AWS::CodeBuild::Project", "AWS::FSx::FileSystem"}

    told = cdk(emulator, "destroy", "--all", "--force", "--app", assembly)
    gone = re.findall(r"phoenix-([a-z-]+): destroyed", told)
    assert set(gone[:3]) == {"cluster", "image", "observability"}
    assert gone.index("file-system") > gone.index("cluster")
    assert set(gone[-3:]) == {"network", "registry", "storage"}
    left = Counter(each["type"] for each in emulator.resources() if each["stack"].startswith("phoenix-"))
    assert left == {"AWS::S3::Bucket": 2, "AWS::Logs::LogGroup": 1}

    cdk(emulator, *deploy)
    after = hand_off()
    assert after.bucket == before.bucket
    assert after.mounted.file_system_id != before.mounted.file_system_id
    assert {each.s3 for each in after.mounted.associations} == {each.s3 for each in before.mounted.associations}
    kept = s3.get_object(Bucket=after.bucket, Key="checkpoints/x/step-00000001/.metadata")["Body"].read()
    assert kept == b"weights"
    buckets = [each for each in emulator.resources() if each["type"] == "AWS::S3::Bucket"]
    ours = [each["stack"] for each in buckets if each["stack"].startswith("phoenix-")]
    assert ours == ["phoenix-storage"] * 2, "the deploy made no second bucket"


# tests/stacks/test_file_systems.py and test_file_system_identity.py prove it of the templates.
@pytest.mark.exhaustive
def test_a_file_system_that_is_kept_is_there_for_the_next_platform(
    emulator: Emulator, bootstrap: Bootstrap, tmp_path: Path
) -> None:
    """In a VPC of one's own; the next platform is told of it, and makes no other."""
    ec2 = emulator_client(emulator, "ec2", "us-west-2")
    there = make_vpc(ec2)
    file, assembly = tmp_path / "platform.yaml", str(tmp_path / "assembly")
    chosen = ["--subnet", f"storage={there['nodes']}", "--security-group", there["group"]]
    kept = {"capacity_tib": 9.6, "throughput_mbps_per_tib": 500, "efa": True, "on_destroy": "keep"}
    platform = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text()) | {"name": "keeper"}
    platform["network"] = {"cidr": "10.21.0.0/16"}
    file.write_text(strict_yaml.dump(platform))
    adopt = [sys.executable, "-m", "trainway.cli", "adopt", there["vpc"], "--platform", str(file), *chosen]
    environment = emulator.child_environment()
    printed = subprocess.run(adopt, env=environment, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    platform["network"] |= yaml.safe_load(printed)["network"]
    bootstrap("us-west-2")
    deploy = ["deploy", "--all", "--import-existing-resources", "--require-approval=never", "--progress=events"]

    def deployed(lustre: dict[str, Any]) -> HandOff:
        file.write_text(strict_yaml.dump(platform | {"storage": {"lustre": lustre}}))
        cdk(emulator, *deploy, "--context", f"platform={file}", "--output", assembly)
        return hand_off_of(emulator, load_platform(file))

    def left() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in emulator.resources():
            if each["stack"].startswith("keeper-"):
                found.setdefault(each["type"], []).append(each["physical_id"])
        return found

    before = deployed(kept)
    cdk(emulator, "destroy", "--all", "--force", "--app", assembly)
    stayed = left()
    assert {kind: len(ids) for kind, ids in stayed.items()} == {
        "AWS::S3::Bucket": 2,
        "AWS::Logs::LogGroup": 1,
        "AWS::FSx::FileSystem": 1,
        "AWS::EC2::SecurityGroup": 1,
        "AWS::EC2::SecurityGroupIngress": 2,
    }
    existing = {
        "file_system_id": before.mounted.file_system_id,
        "dns_name": before.mounted.dns_name,
        "mount_name": before.mounted.mount_name,
        "capacity_gib": 9600,
        "security_group_id": stayed["AWS::EC2::SecurityGroup"][0],
    }
    after = deployed({"existing": existing})
    assert after.file_system == before.file_system
    assert left()["AWS::FSx::FileSystem"] == stayed["AWS::FSx::FileSystem"]
    cdk(emulator, "destroy", "--all", "--force", "--app", assembly)
    fsx = emulator_client(emulator, "fsx", "us-west-2")
    ids = [each["FileSystemId"] for each in fsx.describe_file_systems()["FileSystems"]]
    assert before.mounted.file_system_id in ids, "what was yours before the platform is yours after it"
