"""What a file can ask of the file systems, as the templates say it to FSx."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hand_offs import hand_off_in
from tests.seams.test_templates import lint
from tests.synthesis import ROOT, Template, assembly_in, resources, templates_of
from trainway.manifests.lustre_volume import lustre_volumes
from trainway.spec.loader import load_platform
from trainway.spec.lock import Lock, LockedLustre, lock_file, lock_text

KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
NETWORK = {
    "cidr": "10.20.0.0/16",
    "existing": {
        "vpc_id": "vpc-0123456789abcdef0",
        "cidrs": ["10.20.0.0/16"],
        "route_table_id": "rtb-0123456789abcdef0",
        "subnets": {
            "storage": {"id": "subnet-0123456789abcdef0", "zone": "usw2-az2", "cidr": "10.20.240.0/24", "free": 200}
        },
        "security_group": {"id": "sg-0123456789abcdef0", "from_itself": True, "to_itself": True},
    },
}
EXISTING = {
    "file_system_id": "fs-0123456789abcdef0",
    "dns_name": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
    "mount_name": "abcdefgh",
    "capacity_gib": 4800,
    "security_group_id": "sg-0fedcba9876543210",
    "associations": {"/corpus": "s3://their-corpus"},
}
SQUASH = {"uid": 1, "gid": 2, "but_not": ["10.0.1.6", "10.0.[2-10].[1-255]"]}
ELASTIC = {"lustre": {"storage_class": "intelligent-tiering", "mirror": False}}
SCRATCH = {"lustre": {"storage_class": "scratch", "capacity_tib": 2.4}}
HOME = {
    "home": {"capacity_gib": 2048, "throughput_mbps": 640, "backups": {"days": 30, "hour": 15}},
    "lustre": {"root_squash": {}},
}


def platform_with(storage: dict[str, Any], base: str = "examples/eks-p5.yaml", **changes: Any) -> dict[str, Any]:
    """Return an example with another storage section and no teams, so that the file system can be linked to S3."""
    platform: dict[str, Any] = yaml.safe_load((ROOT / base).read_text())
    return platform | {"teams": [], "storage": storage} | changes


def stacks_with(tmp_path: Path, platform: dict[str, Any]) -> dict[str, Template]:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(platform))
    return templates_of(file)


def made_lustre(stacks: dict[str, Template]) -> dict[str, Any]:
    (file_system,) = resources(stacks["file-system"], "AWS::FSx::FileSystem").values()
    return dict(file_system)


def lustre_with(tmp_path: Path, **lustre: Any) -> dict[str, Any]:
    return made_lustre(stacks_with(tmp_path, platform_with({"lustre": lustre})))


def test_intelligent_tiering_has_throughput_and_no_capacity(tmp_path: Path) -> None:
    asked = {"storage_class": "intelligent-tiering", "throughput_mbps": 8000, "read_cache_gib": 64, "mirror": False}
    file_system = lustre_with(tmp_path, **asked)
    assert file_system["StorageType"] == "INTELLIGENT_TIERING"
    assert "StorageCapacity" not in file_system
    configuration = file_system["LustreConfiguration"]
    assert configuration["ThroughputCapacity"] == 8000
    assert "PerUnitStorageThroughput" not in configuration
    assert configuration["DataReadCacheConfiguration"] == {"SizingMode": "USER_PROVISIONED", "SizeGiB": 64}
    assert configuration["MetadataConfiguration"] == {"Mode": "USER_PROVISIONED", "Iops": 6000}


def test_scratch_has_a_capacity_and_nothing_that_fsx_refuses(tmp_path: Path) -> None:
    stacks = stacks_with(tmp_path, platform_with(SCRATCH))
    (file_system,) = resources(stacks["file-system"], "AWS::FSx::FileSystem").values()
    assert (file_system["StorageType"], file_system["StorageCapacity"]) == ("SSD", 2400)
    assert file_system["LustreConfiguration"] == {"DataCompressionType": "LZ4", "DeploymentType": "SCRATCH_2"}
    assert "KmsKeyId" not in file_system
    # FSx links a scratch file system of Lustre 2.15 as it does a persistent one.
    assert file_system["FileSystemTypeVersion"] == "2.15"
    assert len(resources(stacks["file-system"], "AWS::FSx::DataRepositoryAssociation")) == 3
    alarms = resources(stacks["observability"], "AWS::CloudWatch::Alarm").values()
    assert any(alarm.get("MetricName") == "FreeDataStorageCapacity" for alarm in alarms)


@pytest.mark.parametrize(("gib", "mode"), [(None, "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"), (0, "NO_CACHE")])
def test_a_read_cache_is_sized_by_fsx_or_left_out(gib: int | None, mode: str, tmp_path: Path) -> None:
    asked = {"storage_class": "intelligent-tiering", "read_cache_gib": gib, "mirror": False}
    cache = lustre_with(tmp_path, **asked)["LustreConfiguration"]["DataReadCacheConfiguration"]
    assert cache == {"SizingMode": mode}


@pytest.fixture(scope="module")
def unmirrored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    """Return the stacks of a file system with other settings than by default, and without a mirror."""
    lustre = {
        "capacity_tib": 4.8,
        "metadata_iops": 24000,
        "compression": False,
        "mirror": False,
        "key": KEY,
        "backups": {"days": 14, "hour": 3},
        "maintenance": "sun 03:30",
    }
    return stacks_with(tmp_path_factory.mktemp("unmirrored"), platform_with({"lustre": lustre}))


def test_every_setting_of_a_file_system_reaches_fsx(unmirrored: dict[str, Template]) -> None:
    file_system = made_lustre(unmirrored)
    assert file_system["KmsKeyId"] == KEY
    configuration = file_system["LustreConfiguration"]
    assert configuration["MetadataConfiguration"] == {"Mode": "USER_PROVISIONED", "Iops": 24000}
    assert configuration["DataCompressionType"] == "NONE"
    assert configuration["AutomaticBackupRetentionDays"] == 14
    assert configuration["DailyAutomaticBackupStartTime"] == "03:00"
    assert configuration["WeeklyMaintenanceStartTime"] == "7:03:30"


def test_a_file_system_that_mirrors_nothing_has_no_links_and_no_alarm_about_them(
    unmirrored: dict[str, Template],
) -> None:
    assert not resources(unmirrored["file-system"], "AWS::FSx::DataRepositoryAssociation")
    alarms = resources(unmirrored["observability"], "AWS::CloudWatch::Alarm").values()
    assert {each["MetricName"] for each in alarms if each.get("Namespace") == "AWS/FSx"} == {"FreeDataStorageCapacity"}


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    """Return the stacks of a mirrored file system with root squash, an alarm at 75 %, and volumes for claims."""
    lustre = {"capacity_tib": 2.4, "nearly_full_percent": 75, "root_squash": SQUASH, "dynamic_volumes": True}
    return stacks_with(tmp_path_factory.mktemp("mirrored"), platform_with({"lustre": lustre}))


def test_alarms_ring_when_it_fills_and_when_copies_to_s3_fall_behind(mirrored: dict[str, Template]) -> None:
    found = resources(mirrored["observability"], "AWS::CloudWatch::Alarm").values()
    alarms = {each.get("MetricName"): each for each in found}
    assert alarms["FreeDataStorageCapacity"]["Threshold"] == 0.25 * 2400 * 2**30
    behind = alarms["AgeOfOldestQueuedMessage"]
    assert behind["Threshold"] == 3600
    assert {"Name": "Publisher", "Value": "AutoExport"} in behind["Dimensions"]


def test_no_stack_sets_notifications_of_a_bucket(mirrored: dict[str, Template]) -> None:
    """FSx sets one, for the automatic import of a link. Others would take its place."""
    assert resources(mirrored["file-system"], "AWS::FSx::DataRepositoryAssociation")
    made = [each for template in mirrored.values() for each in template["Resources"].values()]
    buckets = [each["Properties"] for each in made if each["Type"] == "AWS::S3::Bucket"]
    assert buckets and not any("NotificationConfiguration" in each for each in buckets)
    # A custom resource could set them, too.
    assert not [each["Type"] for each in made if each["Type"].startswith(("Custom::", "AWS::CloudFormation::Custom"))]


def test_no_file_system_writes_logs(
    unmirrored: dict[str, Template], mirrored: dict[str, Template], tmp_path: Path
) -> None:
    for stacks in (unmirrored, mirrored, stacks_with(tmp_path, platform_with(SCRATCH))):
        assert "LogConfiguration" not in made_lustre(stacks)["LustreConfiguration"]


def test_what_is_elastic_cannot_fill_up(tmp_path: Path) -> None:
    made = stacks_with(tmp_path, platform_with(ELASTIC))
    alarms = resources(made["observability"], "AWS::CloudWatch::Alarm").values()
    assert not [each for each in alarms if each.get("Namespace") == "AWS/FSx"]


def test_an_existing_file_system_gets_rules_and_the_links_it_lacks(tmp_path: Path) -> None:
    made = stacks_with(tmp_path, platform_with({"lustre": {"existing": EXISTING}}, network=NETWORK))
    stack = made["file-system"]
    assert {each["Type"] for each in stack["Resources"].values()} == {
        "AWS::EC2::SecurityGroupIngress",
        "AWS::FSx::DataRepositoryAssociation",
    }
    pairs = {
        (rule["GroupId"], rule["SourceSecurityGroupId"])
        for rule in resources(stack, "AWS::EC2::SecurityGroupIngress").values()
    }
    theirs, nodes = EXISTING["security_group_id"], "sg-0123456789abcdef0"
    assert pairs == {(theirs, nodes), (nodes, theirs)}
    links = resources(stack, "AWS::FSx::DataRepositoryAssociation").values()
    assert {link["FileSystemPath"] for link in links} == {"/checkpoints", "/runs"}
    assert {link["FileSystemId"] for link in links} == {EXISTING["file_system_id"]}
    said = hand_off_in(assembly_in(tmp_path / "platform.yaml")).mounted
    assert said.dns_name.startswith("fs-0123456789abcdef0.fsx.us-west-2")
    assert "s3://their-corpus" in {each.s3 for each in said.associations}


def test_root_squash_is_set_by_a_stage_that_may_change_this_file_system_only(mirrored: dict[str, Template]) -> None:
    stack = mirrored["file-system"]
    (project,) = resources(stack, "AWS::CodeBuild::Project").values()
    told = {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}
    (file_system,) = resources(stack, "AWS::FSx::FileSystem")
    assert told["FSX_ID"] == {"Ref": file_system}
    assert told["ROOT_SQUASH"] == "1:2"
    assert told["NO_SQUASH_NIDS"] == "10.0.1.6@tcp 10.0.[2-10].[1-255]@tcp"
    allowed = [
        statement
        for policy in resources(stack, "AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "fsx:UpdateFileSystem"
    ]
    assert [json.dumps(each["Resource"]).count(file_system) for each in allowed] == [1]
    assert resources(stack, "AWS::CloudFormation::WaitCondition")


def test_the_hand_off_tells_a_job_how_checkpoints_are_laid_out() -> None:
    told = hand_off_in(assembly_in(ROOT / "examples/hyperpod-eks-p5.yaml")).checkpoints
    assert (told.prefixes, told.part_bytes, told.gbps_each) == (4, 67108864, 10)


def test_a_kept_file_system_stays_with_its_group_and_without_the_nodes_rules(tmp_path: Path) -> None:
    lustre = {"capacity_tib": 9.6, "throughput_mbps_per_tib": 500, "efa": True, "on_destroy": "keep"}
    stack = stacks_with(tmp_path, platform_with({"lustre": lustre}, network=NETWORK))["file-system"]
    kept = {name: each for name, each in stack["Resources"].items() if each.get("DeletionPolicy") == "Retain"}
    kinds = sorted(each["Type"] for each in kept.values())
    assert kinds == ["AWS::EC2::SecurityGroup", *["AWS::EC2::SecurityGroupIngress"] * 2, "AWS::FSx::FileSystem"]
    assert "sg-0123456789abcdef0" not in json.dumps(
        [each["Properties"] for each in kept.values() if each["Type"] == "AWS::EC2::SecurityGroupIngress"]
    )


def test_home_directories_are_mounted_on_every_slurm_node(tmp_path: Path) -> None:
    made = stacks_with(tmp_path, platform_with(HOME, "examples/hyperpod-slurm-p5en.yaml"))
    found = resources(made["file-system"], "AWS::FSx::FileSystem").values()
    (file_system,) = [each for each in found if each["FileSystemType"] == "OPENZFS"]
    configuration = file_system["OpenZFSConfiguration"]
    assert (configuration["DeploymentType"], configuration["ThroughputCapacity"]) == ("SINGLE_AZ_HA_2", 640)
    assert configuration["DailyAutomaticBackupStartTime"] == "15:00"
    rules = resources(made["file-system"], "AWS::EC2::SecurityGroupIngress").values()
    opened = {(rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) for rule in rules if rule["Description"] == "NFS"}
    ports = [(111, 111), (2049, 2049), (20001, 20003)]
    assert opened == {(protocol, *range_) for protocol in ("tcp", "udp") for range_ in ports}
    (cluster,) = resources(made["cluster"], "AWS::SageMaker::Cluster").values()
    for group in cluster["InstanceGroups"]:
        mounts = {name: config for each in group["InstanceStorageConfigs"] for name, config in each.items()}
        assert mounts["FsxOpenZfsConfig"]["MountPath"] == "/home"
        assert mounts["FsxLustreConfig"]["MountPath"] == "/fsx"


def test_volumes_made_for_claims_are_all_that_the_driver_may_make_and_delete(mirrored: dict[str, Template]) -> None:
    policies = resources(mirrored["control-plane"], "AWS::IAM::Policy").values()
    (driver,) = [each for each in policies if "FsxDriverRole" in json.dumps(each["Roles"])]
    conditions = {
        action: statement.get("Condition")
        for statement in driver["PolicyDocument"]["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }
    assert conditions.pop("fsx:DescribeFileSystems") is None
    made_by = {"StringEquals": {"aws:RequestTag/trainway": "atlas"}}
    kept_by = {"StringEquals": {"aws:ResourceTag/trainway": "atlas"}}
    assert conditions == {
        "fsx:CreateFileSystem": made_by,
        "fsx:TagResource": made_by,
        "fsx:DeleteFileSystem": kept_by,
        "fsx:UpdateFileSystem": kept_by,
    }


def test_the_gateway_lets_nothing_be_written_to_other_accounts() -> None:
    network = templates_of(ROOT / "examples/eks-p5.yaml")["network"]
    (gateway,) = [e for e in resources(network, "AWS::EC2::VPCEndpoint").values() if e["VpcEndpointType"] == "Gateway"]
    free = [each for each in gateway["PolicyDocument"]["Statement"] if "Condition" not in each]
    writes = {action for each in free for action in [each["Action"]] if action == "s3:PutObject"}
    assert writes == {"s3:PutObject"}, "the signals of builds"
    (signals,) = [each["Resource"] for each in free if each["Action"] == "s3:PutObject"]
    assert "cloudformation-waitcondition-" in json.dumps(signals)
    (reads,) = [each["Action"] for each in free if each["Action"] != "s3:PutObject"]
    assert all(action.startswith(("s3:Get", "s3:List")) for action in reads)


@pytest.mark.parametrize(
    "roles",
    [("file-system",), pytest.param(("storage", "cluster", "observability"), marks=pytest.mark.exhaustive)],
    ids=["file-system", "others"],
)
def test_cfn_lint_accepts_them(roles: tuple[str, ...], tmp_path: Path) -> None:
    platforms = (
        platform_with(ELASTIC),
        platform_with(SCRATCH),
        platform_with({"lustre": {"existing": EXISTING}}, network=NETWORK),
        platform_with(HOME, "examples/hyperpod-slurm-p5en.yaml"),
    )
    for platform in platforms:
        made = stacks_with(tmp_path, platform)
        for role in roles:
            assert lint(json.dumps(made[role], sort_keys=True), platform["region"]) == (), role


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    """Return the stacks of a platform whose jobs have moved to another file system."""
    directory = tmp_path_factory.mktemp("moved")
    lock = Lock(lustre=LockedLustre(storage_class="ssd", efa=False, key=None))
    lock_file(directory / "platform.yaml").write_text(lock_text(lock))
    new = {"generation": 2, "capacity_tib": 9.6, "import_from": ["s3://mine/a/"]}
    return stacks_with(directory, platform_with({"lustre": new, "former_lustre": {"capacity_tib": 4.8}}))


def test_another_file_system_leaves_the_former_one_as_it_was(moved: dict[str, Template], tmp_path: Path) -> None:
    before = stacks_with(tmp_path, platform_with({"lustre": {"capacity_tib": 4.8}}))["file-system"]["Resources"]
    after = moved["file-system"]["Resources"]
    changed = {name: each for name, each in before.items() if after.get(name) != each}
    ((name, file_system),) = changed.items()
    tag = {"Key": "Name", "Value": "atlas/storage.former_lustre"}
    assert after[name] == file_system | {"Properties": file_system["Properties"] | {"Tags": [tag]}}


def test_both_file_systems_mirror_the_bucket(moved: dict[str, Template]) -> None:
    """Two links of one file system may not overlap. Links of two file systems may, as the FAQ of FSx says."""
    paths: dict[str, set[str]] = {}
    for link in resources(moved["file-system"], "AWS::FSx::DataRepositoryAssociation").values():
        paths.setdefault(json.dumps(link["FileSystemId"]), set()).add(link["FileSystemPath"])
    mirrored = {"/corpus", "/checkpoints", "/runs"}
    assert sorted(paths.values(), key=len) == [mirrored, mirrored | {"/import/mine/a"}]


def test_no_stack_imports_what_goes_with_the_former_file_system(moved: dict[str, Template]) -> None:
    exported = {
        output["Export"]["Name"]
        for output in moved["file-system"]["Outputs"].values()
        if "LustreFileSystem" in json.dumps(output["Value"]) or "LustreGroup" in json.dumps(output["Value"])
    }
    assert len(exported) == 4
    others = json.dumps({role: stack for role, stack in moved.items() if role != "file-system"})
    assert [name for name in exported if f'"{name}"' in others] == []


def test_the_delivery_may_read_what_the_former_file_system_is(moved: dict[str, Template]) -> None:
    written = {each["Name"] for each in resources(moved["file-system"], "AWS::SSM::Parameter").values()}
    projects = resources(moved["cluster"], "AWS::CodeBuild::Project").values()
    read = {
        variable["Name"]: variable["Value"]
        for project in projects
        for variable in project["Environment"]["EnvironmentVariables"]
        if variable.get("Type") == "PARAMETER_STORE" and variable["Name"].startswith("TRAINWAY_")
    }
    assert set(read.values()) == written
    manifests = json.dumps(lustre_volumes(load_platform(ROOT / "examples/eks-p5.yaml"), "a"))
    assert set(read) == {each.replace("FSX", "FORMER_FSX") for each in re.findall(r"TRAINWAY_\w+", manifests)}
    policies = json.dumps(resources(moved["cluster"], "AWS::IAM::Policy"))
    for name in written:
        assert f":parameter{name}" in policies
