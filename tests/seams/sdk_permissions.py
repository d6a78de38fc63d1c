"""The IAM actions, resources, and condition keys of a call that boto3 makes.

CreateTrainingJob: https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-api-permissions-reference.html
S3: https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html (read 2026-11-22)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.seams.launch_calls import Call
from tests.seams.resolved import ACCOUNT

# The resource of an operation, in which a parameter of the call stands in braces.
RESOURCES = {
    "amp:DescribeWorkspace": "arn:aws:aps:{at}:workspace/{workspaceId}",
    "amp:ListWorkspaces": "*",
    "logs:DescribeLogStreams": "arn:aws:logs:{at}:log-group:{logGroupName}",
    "logs:GetLogEvents": "arn:aws:logs:{at}:log-group:{logGroupName}:log-stream:{logStreamName}",
    "s3:DeleteObject": "arn:aws:s3:::{Bucket}/{Key}",
    "s3:GetObject": "arn:aws:s3:::{Bucket}/{Key}",
    "s3:ListObjectsV2": "arn:aws:s3:::{Bucket}",
    "s3:PutObject": "arn:aws:s3:::{Bucket}/{Key}",
    **dict.fromkeys(
        (
            "sagemaker:BatchRebootClusterNodes",
            "sagemaker:BatchReplaceClusterNodes",
            "sagemaker:ListClusterNodes",
            "sagemaker:StartClusterHealthCheck",
        ),
        "arn:aws:sagemaker:{at}:cluster/{ClusterName}",
    ),
    "sagemaker:CreateTrainingJob": "arn:aws:sagemaker:{at}:training-job/{TrainingJobName}",
    "ec2:DescribeSubnets": "*",
    "sagemaker:DescribeTrainingJob": "arn:aws:sagemaker:{at}:training-job/{TrainingJobName}",
    "sagemaker:StopTrainingJob": "arn:aws:sagemaker:{at}:training-job/{TrainingJobName}",
    "ssm:GetParameter": "arn:aws:ssm:{at}:parameter{Name}",
}
# Operations whose action has another name.
ACTIONS = {
    "amp:DescribeWorkspace": "aps:DescribeWorkspace",
    "amp:ListWorkspaces": "aps:ListWorkspaces",
    "s3:ListObjectsV2": "s3:ListBucket",
}


# https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html (read 2026-11-24)
NEED_NONE = {"sts:GetCallerIdentity"}


@dataclass(frozen=True)
class Permission:
    """An action on a resource, with the condition keys that the request has."""

    action: str
    resource: str
    context: dict[str, str] = field(default_factory=dict, hash=False)


def permissions_of(call: Call, region: str) -> Iterator[Permission]:
    """Yield what a call needs. Raises KeyError for an operation that RESOURCES does not have."""
    operation = f"{call.service}:{call.operation}"
    if operation in NEED_NONE:
        return
    resource = RESOURCES[operation].format(at=f"{region}:{ACCOUNT}", **call.parameters)
    tags = {f"aws:RequestTag/{each['Key']}": each["Value"] for each in call.parameters.get("Tags", ())}
    listed = {"s3:prefix": call.parameters.get("Prefix", "")} if operation == "s3:ListObjectsV2" else {}
    yield Permission(ACTIONS.get(operation, operation), resource, tags | listed)
    if operation == "sagemaker:CreateTrainingJob":
        yield Permission("sagemaker:AddTags", resource, {**tags, "sagemaker:TaggingAction": call.operation})
        yield Permission("iam:PassRole", call.parameters["RoleArn"], {"iam:PassedToService": "sagemaker.amazonaws.com"})
