"""`trainway adopt fs-…` says what is there, in the words of the platform file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import yaml
from botocore.stub import Stubber
from typer.testing import CliRunner

from tests.synthesis import ROOT
from trainway.cli import app
from trainway.spec import strict_yaml
from trainway.spec.errors import UsageError

FILE_SYSTEM = "fs-0123456789abcdef0"
FOUND: dict[str, Any] = {
    "FileSystemId": FILE_SYSTEM,
    "FileSystemType": "LUSTRE",
    "StorageType": "SSD",
    "StorageCapacity": 4800,
    "DNSName": f"{FILE_SYSTEM}.fsx.us-west-2.amazonaws.com",
    "NetworkInterfaceIds": ["eni-0123456789abcdef0", "eni-0fedcba9876543210"],
    "LustreConfiguration": {"MountName": "12e34567"},
}
LINKS: list[dict[str, Any]] = [
    {"FileSystemPath": "/corpus", "DataRepositoryPath": "s3://theirs/corpus"},
    {
        "FileSystemPath": "/runs",
        "DataRepositoryPath": "s3://atlas-data/runs/",
        "Tags": [{"Key": "aws:cloudformation:stack-name", "Value": "atlas-file-system"}],
    },
]


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Stubber]]:
    """Clients whose requests and answers are checked against AWS's models, since no emulator answers these."""
    stubs: dict[str, Stubber] = {}
    clients: dict[str, Any] = {name: boto3.Session().client(name, region_name="us-west-2") for name in ("fsx", "ec2")}
    for name, client in clients.items():
        stubs[name] = Stubber(client)
        stubs[name].activate()
    monkeypatch.setattr(boto3, "client", lambda name, **_: clients[name])
    yield stubs


def answer(aws: dict[str, Stubber], *, groups: list[str], **changes: Any) -> None:
    aws["fsx"].add_response(
        "describe_file_systems", {"FileSystems": [FOUND | changes]}, {"FileSystemIds": [FILE_SYSTEM]}
    )
    aws["fsx"].add_response(
        "describe_data_repository_associations",
        {"Associations": LINKS},
        {"Filters": [{"Name": "file-system-id", "Values": [FILE_SYSTEM]}]},
    )
    interface = {"Groups": [{"GroupId": group} for group in groups]}
    aws["ec2"].add_response(
        "describe_network_interfaces",
        {"NetworkInterfaces": [interface]},
        {"NetworkInterfaceIds": ["eni-0123456789abcdef0"]},
    )


def adopt(*arguments: str) -> Any:
    command = ["adopt", FILE_SYSTEM, "--platform", str(ROOT / "examples" / "eks-p5.yaml"), *arguments]
    return CliRunner().invoke(app, command, catch_exceptions=False)


def test_what_is_printed_is_a_section_of_the_platform_file(aws: dict[str, Stubber]) -> None:
    answer(aws, groups=["sg-0123456789abcdef0"])
    printed = strict_yaml.read(adopt().stdout)
    assert not printed.faults, "the mount name is text, although some of its kind are numbers to a YAML reader"
    assert printed.data["storage"]["lustre"]["existing"] == {
        "file_system_id": FILE_SYSTEM,
        "dns_name": f"{FILE_SYSTEM}.fsx.us-west-2.amazonaws.com",
        "mount_name": "12e34567",
        "capacity_gib": 4800,
        "security_group_id": "sg-0123456789abcdef0",
        "associations": {"/corpus": "s3://theirs/corpus"},
    }, "the link that a deploy made goes with its stack, and is made anew"


def test_of_several_groups_one_is_chosen(aws: dict[str, Stubber]) -> None:
    groups = ["sg-0123456789abcdef0", "sg-0fedcba9876543210"]
    answer(aws, groups=groups)
    chosen = yaml.safe_load(adopt("--security-group", groups[1]).stdout)
    assert chosen["storage"]["lustre"]["existing"]["security_group_id"] == groups[1]
    answer(aws, groups=groups)
    with pytest.raises(UsageError, match="2 security groups"):
        adopt()


def test_another_kind_of_file_system_is_refused(aws: dict[str, Stubber]) -> None:
    answer(aws, groups=[], FileSystemType="OPENZFS")
    with pytest.raises(UsageError, match="it is OPENZFS"):
        adopt()


def test_one_that_is_not_there_is_refused_with_the_permissions_it_takes(aws: dict[str, Stubber]) -> None:
    aws["fsx"].add_client_error("describe_file_systems", "FileSystemNotFound", "there is none")
    with pytest.raises(UsageError, match="fsx:DescribeFileSystems"):
        adopt()
