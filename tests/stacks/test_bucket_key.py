"""A KMS key for the data bucket: whoever reads or writes objects can use it, through S3 and in no other way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.representatives import with_representatives
from tests.seams.evaluator import BY_IAM, Question, allowed, role
from tests.seams.policies import identity_policies
from tests.seams.resolved import Deployed, deploy
from tests.synthesis import templates_of

KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
GROUPS = [{"name": "train", "instance_type": "p5.48xlarge", "count": 2}]
PLATFORM: dict[str, Any] = {
    "region": "us-west-2",
    "zones": ["usw2-az2", "usw2-az1"],
    "node_groups": GROUPS,
    "kubernetes": {"admins": ["arn:aws:iam::111122223333:role/Ada"]},
    "storage": {"bucket": {"key": KEY}},
    "iam": {"persona_roles": True, "training_jobs": True},
}
SLURM = {key: value for key, value in PLATFORM.items() if key != "kubernetes"} | {"iam": {"training_jobs": True}}
OBJECTS = ("corpus/a", "checkpoints/a", "delivery/tools/helm", "delivery/bills/a", "lifecycle_scripts/a", "image/a")
THROUGH_S3 = {"kms:ViaService": "s3.us-west-2.amazonaws.com"}


@pytest.fixture(
    scope="module", params=with_representatives(["eks", "hyperpod-eks", "hyperpod-slurm"], ("eks", "hyperpod-slurm"))
)
def platform(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    file: Path = tmp_path_factory.mktemp("platform") / "platform.yaml"
    document = SLURM if request.param == "hyperpod-slurm" else PLATFORM
    file.write_text(yaml.safe_dump(document | {"orchestrator": request.param}))
    return deploy(templates_of(file), PLATFORM["region"])


def bucket_of(platform: Deployed) -> dict[str, Any]:
    """Return the properties of the data bucket."""
    return next(each for (_, name), each in platform.of_type("AWS::S3::Bucket").items() if "DataBucket" in name)


def test_the_key_encrypts_the_data_and_not_the_access_logs(platform: Deployed) -> None:
    rules = {
        name: each["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        for (_, name), each in platform.of_type("AWS::S3::Bucket").items()
    }
    by_key = {"KMSMasterKeyID": KEY, "SSEAlgorithm": "aws:kms"}
    (data,) = (each for name, each in rules.items() if "DataBucket" in name)
    (logs,) = (each for name, each in rules.items() if "AccessLogs" in name)
    assert data == [{"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": by_key}]
    assert logs == [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]


def test_a_role_uses_the_key_exactly_if_it_reads_or_writes_objects_of_the_bucket(platform: Deployed) -> None:
    name = bucket_of(platform)["BucketName"]
    roles = {found: identity_policies(platform, stack, found) for stack, found in platform.of_type("AWS::IAM::Role")}
    kinds = (("s3:GetObject", "kms:Decrypt"), ("s3:PutObject", "kms:GenerateDataKey"))
    users = set()
    for of_objects, of_key in kinds:
        for role_name, own in roles.items():
            who = role(role_name)
            asked = [Question(who, of_objects, f"arn:aws:s3:::{name}/{key}", own) for key in OBJECTS]
            uses, outside = allowed(
                [Question(who, of_key, KEY, own, BY_IAM, context=each) for each in (THROUGH_S3, {})]
            )
            assert uses or not any(allowed(asked)), f"{role_name}: {of_objects} without {of_key}"
            assert not outside, f"{role_name}: {of_key} without S3"
            users |= {role_name} if uses else set()
    assert 3 < len(users) < len(roles)
