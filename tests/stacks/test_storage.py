"""What the storage stack promises: mounts that work, data that outlives the stack."""

from __future__ import annotations

from pathlib import Path

from tests.stacks.by_example import Synthesized
from tests.synthesis import ROOT, resources, templates_of
from trainway.spec.loader import load_platform


def test_lustre_ports_are_open_between_servers_and_clients_in_every_direction(
    example: Path, synthesized: Synthesized
) -> None:
    rules = resources(synthesized[example.stem]["file-system"], "AWS::EC2::SecurityGroupIngress").values()
    opened: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for rule in rules:
        pair = (str(rule["GroupId"]), str(rule["SourceSecurityGroupId"]))
        opened.setdefault(pair, set()).add((rule["FromPort"], rule["ToPort"]))
    # servers↔servers, clients→servers, servers→clients; clients↔clients is the EFA group's rule
    assert len(opened) == (3 if load_platform(example).storage.lustre else 0)
    assert all(ports == {(988, 988), (1018, 1023)} for ports in opened.values())


def test_file_system_waits_for_its_rules(example: Path, synthesized: Synthesized) -> None:
    stack = synthesized[example.stem]["file-system"]
    file_systems = [r for r in stack["Resources"].values() if r["Type"] == "AWS::FSx::FileSystem"]
    assert len(file_systems) == len(load_platform(example).storage.lustre_by_key)
    for file_system in file_systems:
        assert set(resources(stack, "AWS::EC2::SecurityGroupIngress")) <= set(file_system["DependsOn"])


def test_file_system_with_efa_carries_the_efa_group(synthesized: Synthesized) -> None:
    for name, efa in (("eks-p5", True), ("platform", False)):
        (file_system,) = resources(synthesized[name]["file-system"], "AWS::FSx::FileSystem").values()
        assert file_system["LustreConfiguration"]["EfaEnabled"] is efa
        assert len(file_system["SecurityGroupIds"]) == (2 if efa else 1)


def test_directories_mirror_the_bucket_both_ways_and_imports_one_way(synthesized: Synthesized) -> None:
    stack = synthesized["hyperpod-eks-p5"]["file-system"]
    associations = resources(stack, "AWS::FSx::DataRepositoryAssociation").values()
    exported = {a["FileSystemPath"]: "AutoExportPolicy" in a["S3"] for a in associations}
    assert exported == {"/corpus": True, "/checkpoints": True, "/runs": True, "/import/corpus/web": False}


def test_old_versions_are_kept_for_the_days_of_the_file(tmp_path: Path) -> None:
    text = (ROOT / "examples/eks-s3.yaml").read_text(encoding="utf-8")
    keys = "old_versions_days: 90, old_checkpoints_days: 2, access_logs_days: 40, shared"
    (tmp_path / "platform.yaml").write_text(text.replace("{shared", f"{{{keys}"), encoding="utf-8")
    buckets = resources(templates_of(tmp_path / "platform.yaml")["storage"], "AWS::S3::Bucket")
    rules = [rule for each in buckets.values() for rule in each["LifecycleConfiguration"]["Rules"]]
    kept = {(rule.get("Prefix"), rule["NoncurrentVersionExpiration"]["NoncurrentDays"]) for rule in rules}
    assert kept == {(None, 90), ("checkpoints/", 2)}
    assert [rule["ExpirationInDays"] for rule in rules if "ExpirationInDays" in rule] == [40]


def test_destroy_keeps_the_buckets_and_the_logs_of_the_control_plane(example: Path, synthesized: Synthesized) -> None:
    for template in synthesized[example.stem].values():
        for name, resource in template["Resources"].items():
            kept = resource.get("DeletionPolicy") == "Retain"
            may_stay = resource["Type"] == "AWS::S3::Bucket" or name.startswith("ControlPlaneLogs")
            assert not kept or may_stay, name
    buckets = [
        resource
        for resource in synthesized[example.stem]["storage"]["Resources"].values()
        if resource["Type"] == "AWS::S3::Bucket"
    ]
    assert buckets and all(bucket["DeletionPolicy"] == "Retain" for bucket in buckets)


def test_file_system_is_in_the_zone_of_the_first_node_group(example: Path, synthesized: Synthesized) -> None:
    platform = load_platform(example)
    stacks = synthesized[example.stem]
    if platform.storage.lustre is None:
        assert not resources(stacks["file-system"], "AWS::FSx::FileSystem")
        return
    (file_system,) = resources(stacks["file-system"], "AWS::FSx::FileSystem").values()
    exported = {
        output["Export"]["Name"].partition(":")[2]: output["Value"]["Ref"]
        for output in stacks["network"]["Outputs"].values()
        if "Ref" in output["Value"]
    }
    (imported,) = file_system["SubnetIds"]
    subnet = resources(stacks["network"], "AWS::EC2::Subnet")[exported[imported["Fn::ImportValue"].partition(":")[2]]]
    assert subnet["AvailabilityZoneId"] == platform.zone_of(platform.node_groups[0])
