"""The logical IDs of what holds data, or has a name of its own, are the ones that earlier deploys know."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tests.promised import broken, promised_ids, read_promised
from tests.synthesis import Template

Synthesized = dict[str, dict[str, Template]]


def test_no_promised_id_is_gone_or_of_another_type(example: Path, synthesized: Synthesized) -> None:
    assert not list(broken(read_promised()[example.stem], synthesized[example.stem]))


def test_every_resource_that_needs_a_promise_has_one(example: Path, synthesized: Synthesized) -> None:
    promised = read_promised()[example.stem]
    needed = promised_ids(synthesized[example.stem])
    new = [f"{role}/{name}" for role, ids in needed.items() for name in ids if name not in promised.get(role, {})]
    assert not new, "run `python -m tests.promised`, and review what it adds to releases/promised.yaml"


def test_a_bucket_that_is_renamed_or_retyped_is_found(synthesized: Synthesized) -> None:
    promised, made = read_promised()["platform"], copy.deepcopy(synthesized["platform"])
    resources = made["storage"]["Resources"]
    (bucket,) = (name for name in resources if name.startswith("DataBucket") and "Policy" not in name)
    resources["Data2Bucket"] = resources.pop(bucket)
    assert list(broken(promised, made)) == [f"storage/{bucket} is gone, and was promised as AWS::S3::Bucket"]
    resources[bucket] = {"Type": "AWS::S3::DirectoryBucket"}
    assert list(broken(promised, made)) == [
        f"storage/{bucket} is AWS::S3::DirectoryBucket, and was promised as AWS::S3::Bucket"
    ]


@pytest.mark.parametrize(
    ("role", "kind"),
    [
        ("storage", "AWS::S3::Bucket"),
        ("file-system", "AWS::FSx::FileSystem"),
        ("network", "AWS::EC2::VPC"),
        ("control-plane", "AWS::EKS::Cluster"),
        ("registry", "AWS::ECR::Repository"),
        ("cluster", "AWS::SSM::Parameter"),
    ],
)
def test_the_list_has_what_a_platform_must_not_lose(role: str, kind: str) -> None:
    assert kind in read_promised()["platform"][role].values()
