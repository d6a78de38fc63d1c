"""Platforms that are deployed to an emulator once per test file, and edits of their files."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import yaml

from emulator import Emulator
from tests.changes.emulated_account import ACCOUNT
from tests.synthesis import assembly_in
from trainway.diff.assembly import SynthesizedStack, read_assembly
from trainway.diff.change_sets import CAPABILITIES, LARGEST_BODY
from trainway.spec.derived.next_lock import next_lock
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.lock import lock_file, lock_text

ONE_AT_A_TIME = threading.Lock()
BASES: dict[str, dict[str, Any]] = {
    "eks": {
        "orchestrator": "eks",
        "node_groups": [
            {"name": "aa", "instance_type": "g5.8xlarge", "count": 2},
            {"name": "bb", "instance_type": "g5.8xlarge", "count": 1},
            {"name": "cc", "instance_type": "g5.8xlarge", "count": 0, "max_count": 4},
        ],
        "storage": {"lustre": {"capacity_tib": 2.4}},
        "teams": [{"name": "red"}, {"name": "blue"}],
        # Without it the group that scales would take the autoscaler along as it leaves.
        "kubernetes": {"autoscaling": False},
    },
    "hyperpod-eks": {
        "orchestrator": "hyperpod-eks",
        "node_groups": [
            {"name": "aa", "instance_type": "p5.48xlarge", "count": 2},
            {"name": "bb", "instance_type": "g5.8xlarge", "count": 1},
        ],
    },
    "hyperpod-slurm": {
        "orchestrator": "hyperpod-slurm",
        "node_groups": [
            {"name": "aa", "instance_type": "p5.48xlarge", "count": 2},
            {"name": "bb", "instance_type": "g5.8xlarge", "count": 1},
        ],
    },
}
ADMINS = (f"arn:aws:iam::{ACCOUNT}:role/admin",)
IN_ONE_REGION = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"]}


def base(orchestrator: str) -> dict[str, Any]:
    """Return the data of a base platform, which the caller may change."""
    data = {"name": f"base-{orchestrator}", **IN_ONE_REGION, **BASES[orchestrator]}
    if orchestrator != "hyperpod-slurm":
        data["kubernetes"] = {**data.get("kubernetes", {}), "admins": ADMINS}
    copied: dict[str, Any] = json.loads(json.dumps(data))
    return copied


def write_platform(file: Path, data: Mapping[str, Any]) -> None:
    """Write a platform file, and the lock with which `make deploy` begins."""
    file.write_text(yaml.safe_dump(dict(data), sort_keys=False), encoding="utf-8")
    platform = load_platform(file)
    lock_file(file).write_text(lock_text(next_lock(platform, load_catalogue())), encoding="utf-8")


def synthesize_here(file: Path, out: Path, **_options: Any) -> None:
    """Synthesize as `trainway.diff.assembly.synthesize` does, in this process and with the tests' cache."""
    # The CDK's runtime serves one thread at a time.
    with ONE_AT_A_TIME:
        # The diff does not look at the 330 files of the bundles.
        shutil.copytree(assembly_in(file), out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("bundles"))


def client(emulator: Emulator, service: str) -> Any:
    """Return a client of the emulated AWS."""
    session: Any = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name="us-west-2")
    return session.client(service, endpoint_url=emulator.endpoint)


def deploy(emulator: Emulator, file: Path) -> None:
    """Deploy a platform file stack by stack, as the CDK's command line does."""
    cloudformation = client(emulator, "cloudformation")
    live = {each["StackName"] for each in cloudformation.describe_stacks()["Stacks"]}
    for stack in read_assembly(assembly_in(file)).values():
        name, kind = stack.name, "UPDATE" if stack.name in live else "CREATE"
        cloudformation.create_change_set(
            StackName=name, ChangeSetName="deploy", ChangeSetType=kind, Capabilities=CAPABILITIES,
            ImportExistingResources=True, **_template(emulator, stack),
        )  # fmt: skip
        described = cloudformation.describe_change_set(StackName=name, ChangeSetName="deploy")
        if described["Status"] == "FAILED" and "didn't contain changes" in described["StatusReason"]:
            cloudformation.delete_change_set(StackName=name, ChangeSetName="deploy")
            continue
        assert described["Status"] == "CREATE_COMPLETE", described["StatusReason"]
        cloudformation.execute_change_set(StackName=name, ChangeSetName="deploy")
        (found,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        assert found["StackStatus"] == f"{kind}_COMPLETE", found


def _template(emulator: Emulator, stack: SynthesizedStack) -> dict[str, str]:
    if len(stack.text.encode()) <= LARGEST_BODY:
        return {"TemplateBody": stack.text}
    key = stack.url.rpartition("/")[2]
    client(emulator, "s3").put_object(Bucket=_bucket(), Key=key, Body=stack.text.encode())
    return {"TemplateURL": f"https://{_bucket()}.s3.us-west-2.amazonaws.com/{key}"}


def _bucket() -> str:
    return f"cdk-hnb659fds-assets-{ACCOUNT}-us-west-2"
