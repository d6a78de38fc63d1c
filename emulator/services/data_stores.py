"""The services that keep data and images: S3, ECR, and FSx."""

from __future__ import annotations

import json
import uuid
from typing import Any

from emulator.errors import ResourceError
from emulator.registry.schema import Properties
from emulator.services.service import Aws, Service, ignoring, only_changed, without


def create_bucket(aws: Aws, model: Properties) -> Properties:
    name = model["BucketName"]
    if name in {bucket["Name"] for bucket in aws.client("s3").list_buckets()["Buckets"]}:
        # In us-east-1, S3 itself lets an owner create a bucket again. CloudFormation does not take over existing
        # buckets.
        raise ResourceError(f"{name} already exists")
    # us-east-1 is the only region that S3 does not accept as a location constraint.
    location = {"LocationConstraint": aws.region} if aws.region != "us-east-1" else None
    aws.client("s3").create_bucket(Bucket=name, **({"CreateBucketConfiguration": location} if location else {}))
    _configure_bucket(aws, {}, model)
    return _bucket_attributes(aws, name)


def find_bucket(aws: Aws, identifier: Properties) -> Properties | None:
    """Return the bucket unchanged, because an import does not change it."""
    name = identifier["BucketName"]
    there = name in {bucket["Name"] for bucket in aws.client("s3").list_buckets()["Buckets"]}
    return _bucket_attributes(aws, name) if there else None


def _bucket_attributes(aws: Aws, name: str) -> Properties:
    return {
        "Arn": f"arn:aws:s3:::{name}",
        "DomainName": f"{name}.s3.amazonaws.com",
        "DualStackDomainName": f"{name}.s3.dualstack.{aws.region}.amazonaws.com",
        "RegionalDomainName": f"{name}.s3.{aws.region}.amazonaws.com",
        "WebsiteURL": f"http://{name}.s3-website-{aws.region}.amazonaws.com",
    }


def update_bucket(aws: Aws, old: Properties, new: Properties) -> Properties:
    _configure_bucket(aws, old, new)
    return {}


def _configure_bucket(aws: Aws, old: Properties, new: Properties) -> None:
    """Set what S3's emulation keeps: encryption, versioning, public access, ownership, lifecycle, and tags."""
    s3, bucket = aws.client("s3"), {"Bucket": new["BucketName"]}
    changed = {key: new[key] for key in new if old.get(key) != new[key]}
    if "BucketEncryption" in changed:
        rules = [_encryption_rule(rule) for rule in changed["BucketEncryption"]["ServerSideEncryptionConfiguration"]]
        s3.put_bucket_encryption(**bucket, ServerSideEncryptionConfiguration={"Rules": rules})
    if "VersioningConfiguration" in changed:
        s3.put_bucket_versioning(**bucket, VersioningConfiguration=changed["VersioningConfiguration"])
    elif "VersioningConfiguration" in old and "VersioningConfiguration" not in new:
        s3.put_bucket_versioning(**bucket, VersioningConfiguration={"Status": "Suspended"})
    if "PublicAccessBlockConfiguration" in changed:
        s3.put_public_access_block(**bucket, PublicAccessBlockConfiguration=changed["PublicAccessBlockConfiguration"])
    if "OwnershipControls" in changed:
        s3.put_bucket_ownership_controls(**bucket, OwnershipControls=changed["OwnershipControls"])
    if "LifecycleConfiguration" in changed:
        rules = [_lifecycle_rule(rule) for rule in changed["LifecycleConfiguration"]["Rules"]]
        s3.put_bucket_lifecycle_configuration(**bucket, LifecycleConfiguration={"Rules": rules})
    elif "LifecycleConfiguration" in old and "LifecycleConfiguration" not in new:
        s3.delete_bucket_lifecycle(**bucket)
    if "Tags" in changed:
        s3.put_bucket_tagging(**bucket, Tagging={"TagSet": changed["Tags"]})


def _encryption_rule(rule: Properties) -> Properties:
    default = rule.get("ServerSideEncryptionByDefault")
    return without(rule, "ServerSideEncryptionByDefault", "BlockedEncryptionTypes") | (
        {"ApplyServerSideEncryptionByDefault": default} if default else {}
    )


def _lifecycle_rule(rule: Properties) -> Properties:
    """Convert a rule from CloudFormation's flat form to the API's nested one."""
    translated: dict[str, Any] = {key: rule[key] for key in ("Status", "AbortIncompleteMultipartUpload") if key in rule}
    if "Id" in rule:
        translated["ID"] = rule["Id"]
    tags = rule.get("TagFilters", [])
    translated["Filter"] = (
        {"And": {"Prefix": rule.get("Prefix", ""), "Tags": tags}} if tags else {"Prefix": rule.get("Prefix", "")}
    )
    expiration = {
        "ExpirationInDays": "Days",
        "ExpirationDate": "Date",
        "ExpiredObjectDeleteMarker": "ExpiredObjectDeleteMarker",
    }
    if found := {name: rule[key] for key, name in expiration.items() if key in rule}:
        translated["Expiration"] = found
    if "NoncurrentVersionExpirationInDays" in rule:
        translated["NoncurrentVersionExpiration"] = {"NoncurrentDays": rule["NoncurrentVersionExpirationInDays"]}
    if "NoncurrentVersionExpiration" in rule:
        translated["NoncurrentVersionExpiration"] = rule["NoncurrentVersionExpiration"]
    if "Transitions" in rule:
        translated["Transitions"] = [
            {"Days": item["TransitionInDays"], "StorageClass": item["StorageClass"]} for item in rule["Transitions"]
        ]
    return translated


def delete_bucket(aws: Aws, model: Properties) -> None:
    with ignoring("NoSuchBucket"):
        aws.client("s3").delete_bucket(Bucket=model["BucketName"])


def put_bucket_policy(aws: Aws, model: Properties) -> Properties:
    aws.client("s3").put_bucket_policy(Bucket=model["Bucket"], Policy=json.dumps(model["PolicyDocument"]))
    return {}


def delete_bucket_policy(aws: Aws, model: Properties) -> None:
    with ignoring("NoSuchBucket"):
        aws.client("s3").delete_bucket_policy(Bucket=model["Bucket"])


def create_repository(aws: Aws, model: Properties) -> Properties:
    repository = aws.call("ecr", "create_repository", model)["repository"]
    _configure_repository(aws, model)
    return {"Arn": repository["repositoryArn"], "RepositoryUri": repository["repositoryUri"]}


def update_repository(aws: Aws, old: Properties, new: Properties) -> Properties:
    ecr, name = aws.client("ecr"), {"repositoryName": new["RepositoryName"]}
    if "ImageTagMutability" in new:
        ecr.put_image_tag_mutability(**name, imageTagMutability=new["ImageTagMutability"])
    if "LifecyclePolicy" in old and "LifecyclePolicy" not in new:
        ecr.delete_lifecycle_policy(**name)
    if "RepositoryPolicyText" in old and "RepositoryPolicyText" not in new:
        ecr.delete_repository_policy(**name)
    _configure_repository(aws, new)
    return {}


def _configure_repository(aws: Aws, model: Properties) -> None:
    ecr, name = aws.client("ecr"), {"repositoryName": model["RepositoryName"]}
    lifecycle = model.get("LifecyclePolicy", {}).get("LifecyclePolicyText")
    if lifecycle:
        ecr.put_lifecycle_policy(**name, lifecyclePolicyText=lifecycle)
    policy = model.get("RepositoryPolicyText")
    if policy:
        ecr.set_repository_policy(**name, policyText=policy if isinstance(policy, str) else json.dumps(policy))


def delete_repository(aws: Aws, model: Properties) -> None:
    with ignoring("RepositoryNotFoundException"):
        aws.client("ecr").delete_repository(
            repositoryName=model["RepositoryName"], force=bool(model.get("EmptyOnDelete"))
        )


def create_file_system(aws: Aws, model: Properties) -> Properties:
    file_system = aws.call("fsx", "create_file_system", model)["FileSystem"]
    # moto gives a Lustre file system no mount name. AWS's has eight letters and digits. This one is also a number to a
    # YAML reader, so that whoever writes it without quotes fails.
    number = uuid.uuid4().int % 10**7
    return {
        "LustreMountName": f"{number // 10**5:02d}e{number % 10**5:05d}",
        "DNSName": file_system["DNSName"],
        "Id": file_system["FileSystemId"],
        "ResourceARN": file_system["ResourceARN"],
    }


def update_file_system(aws: Aws, old: Properties, new: Properties) -> Properties:
    # moto has no UpdateFileSystem, so the state after an update is not available, and only tags may change.
    only_changed(old, new, ("Tags",))
    aws.client("fsx").tag_resource(ResourceARN=new["ResourceARN"], Tags=new.get("Tags", []))
    return {}


def delete_file_system(aws: Aws, model: Properties) -> None:
    with ignoring("FileSystemNotFound"):
        aws.client("fsx").delete_file_system(FileSystemId=model["Id"])


SERVICES = {
    "AWS::ECR::Repository": Service(create_repository, delete_repository, update_repository),
    "AWS::FSx::FileSystem": Service(create_file_system, delete_file_system, update_file_system),
    "AWS::S3::Bucket": Service(create_bucket, delete_bucket, update_bucket, find_bucket),
    "AWS::S3::BucketPolicy": Service(
        put_bucket_policy, delete_bucket_policy, lambda aws, _old, new: put_bucket_policy(aws, new)
    ),
}
