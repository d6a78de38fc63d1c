"""A setting with which CloudFormation makes another file system is part of what decides that a stage runs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from stacks.constructs.storage import file_system_identity as module
from tests.stacks.changes import merged
from tests.synthesis import ROOT, resources
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

KIND = "AWS::FSx::FileSystem"
KEY = "arn:aws:kms:us-east-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
# What FSx takes when it creates a file system and not when it updates one of this kind (CreateFileSystem and
# UpdateFileSystem in botocore's model), and of which neither source says what CloudFormation does with a change.
NEVER_UPDATED = {"StorageType", "LustreConfiguration/EfaEnabled"}
EXAMPLE = yaml.safe_load((ROOT / "examples/hyperpod-slurm-p5en.yaml").read_text(encoding="utf-8"))
BASE = EXAMPLE | {"storage": {"lustre": {"mirror": False}, "home": {}}}
REPLACING: dict[str, dict[str, Any]] = {
    "storage class": {"lustre": {"storage_class": "intelligent-tiering"}},
    "throughput": {"lustre": {"throughput_mbps_per_tib": 500}},
    "EFA": {"lustre": {"efa": True, "capacity_tib": 19.2}},
    "key": {"lustre": {"key": KEY}},
    "backups": {"lustre": {"backups": {"days": 7}}},
    "availability of homes": {"home": {"highly_available": False}},
    "key of homes": {"home": {"key": KEY}},
}
UPDATING: dict[str, dict[str, Any]] = {
    "capacity": {"lustre": {"capacity_tib": 38.4}},
    "metadata": {"lustre": {"metadata_iops": 12000}},
    "compression": {"lustre": {"compression": False}},
    "maintenance": {"lustre": {"maintenance": "sun 03:00"}},
    "capacity of homes": {"home": {"capacity_gib": 2048}},
    "throughput of homes": {"home": {"throughput_mbps": 640}},
    "backups of homes": {"home": {"backups": None}},
}


def by_the_registry() -> set[str]:
    """Return what CloudFormation's registry schema lists as properties that only a creation sets."""
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", KIND).schema
    return {path.removeprefix("/properties/") for path in schema["createOnlyProperties"]}


def by_the_cdk() -> set[str]:
    """Return the properties, and those below them, whose change replaces a file system by the AWS CDK's database."""
    packed = (ROOT / "node_modules/aws-cdk/db.json.gz").read_bytes()
    database = json.loads(gzip.decompress(packed))["schema"]
    types = {each["$id"]: each for each in database["typeDefinition"]["entities"]}
    kinds = database["resource"]["entities"]

    def of(holder: dict[str, Any], above: str) -> Iterator[str]:
        for name, each in holder["properties"].items():
            if each.get("causesReplacement") == "yes":
                yield above + name
            if each["type"]["type"] == "ref":
                yield from of(types[each["type"]["reference"]["$ref"]], f"{above}{name}/")

    (file_system,) = (each for each in kinds if each["cloudFormationType"] == KIND)
    return set(of(file_system, ""))


@cache
def replacing() -> set[str]:
    return by_the_registry() | by_the_cdk() | NEVER_UPDATED


def platform_with(directory: Path, storage: dict[str, Any]) -> Platform:
    file = directory / "platform.yaml"
    file.write_text(yaml.safe_dump(merged(BASE, {"storage": storage})))
    return load_platform(file)


def made(directory: Path, platform: Platform) -> dict[str, dict[str, Any]]:
    """Return, for each file system of the platform, those of its properties whose change makes another one."""
    import aws_cdk as cdk
    from aws_cdk import aws_s3 as s3

    from stacks.constructs.storage.home import HomeFileSystem
    from stacks.constructs.storage.lustre import LustreFileSystem

    app = cdk.App(outdir=str(directory / "cdk.out"))
    stack = cdk.Stack(app, "stack")
    there = {"vpc_id": "vpc-1", "subnet_id": "subnet-1", "client_group_id": "sg-1"}
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "data")
    LustreFileSystem(stack, "Lustre", lustre=platform.storage.of_jobs, bucket=bucket, **there)
    assert platform.storage.home
    HomeFileSystem(stack, "Home", home=platform.storage.home, **there)
    template = app.synth().get_stack_by_name("stack").template
    return {name: fixed(properties) for name, properties in resources(template, KIND).items()}


def fixed(properties: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(replacing()):
        value: Any = properties
        for part in path.split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        found[path] = value
    return found


def test_both_sources_name_properties_that_replace_a_file_system() -> None:
    assert {"KmsKeyId", "SecurityGroupIds", "SubnetIds", "FileSystemType"} <= by_the_registry() & by_the_cdk()
    nested = {"LustreConfiguration/DeploymentType", "OpenZFSConfiguration/DeploymentType"}
    assert nested <= by_the_cdk()
    assert not {each for each in by_the_registry() if "/" in each}


@pytest.mark.parametrize("change", REPLACING.values(), ids=REPLACING)
def test_a_change_that_makes_another_file_system_changes_what_stands_for_it(
    change: dict[str, Any], tmp_path: Path
) -> None:
    before, after = platform_with(tmp_path, {}), platform_with(tmp_path, change)
    assert made(tmp_path, before) != made(tmp_path, after)
    assert module.file_system_identity(before) != module.file_system_identity(after)


@pytest.mark.parametrize("change", UPDATING.values(), ids=UPDATING)
def test_a_change_in_place_does_not(change: dict[str, Any], tmp_path: Path) -> None:
    before, after = platform_with(tmp_path, {}), platform_with(tmp_path, change)
    assert made(tmp_path, before) == made(tmp_path, after)
    assert module.file_system_identity(before) == module.file_system_identity(after)
