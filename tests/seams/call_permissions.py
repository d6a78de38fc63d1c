"""The IAM actions, and the resources, that a call of a command-line tool needs.

S3: the operations in botocore's model, of which ListObjectsV2 says that it needs s3:ListBucket.
Pushing to ECR: https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html (read 2026-11-22)
Pulling: repository-policy-examples in the user guide as its repository was archived in 2023, to which
BatchCheckLayerAvailability is added here: https://github.com/awsdocs/amazon-ecr-user-guide (read 2026-11-22)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

import botocore.session
from botocore import xform_name

from tests.seams.resolved import ACCOUNT

PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
PUSH = (*PULL[:2], "ecr:CompleteLayerUpload", "ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:UploadLayerPart")
IN_ECR = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com/([^:@\s]+)")
# Operations of the AWS CLI that are not an operation of the API by the same name.
CUSTOM = {"eks update-kubeconfig": "eks:DescribeCluster", "ecr get-login-password": "ecr:GetAuthorizationToken"}
# Options that name the resource, by operation.
RESOURCES = {
    "ecr batch-delete-image": ("--repository-name", "arn:aws:ecr:{region}:{account}:repository/{value}"),
    "ecr describe-image-signing-status": ("--repository-name", "arn:aws:ecr:{region}:{account}:repository/{value}"),
    "ecr create-repository": ("--repository-name", "arn:aws:ecr:{region}:{account}:repository/{value}"),
    "ecr describe-images": ("--repository-name", "arn:aws:ecr:{region}:{account}:repository/{value}"),
    "eks update-kubeconfig": ("--name", "arn:aws:eks:{region}:{account}:cluster/{value}"),
    "secretsmanager get-secret-value": ("--secret-id", "{value}"),
    "fsx update-file-system": ("--file-system-id", "arn:aws:fsx:{region}:{account}:file-system/{value}"),
}
Needed = tuple[str, str]


def needed(call: Sequence[str], region: str) -> Iterator[Needed]:
    """Yield the action and the resource of each permission that a call needs.

    Raises ValueError for a call of the AWS CLI that this file does not know.
    """
    tool, *words = call
    if tool == "aws":
        yield from _of_the_aws_cli(words, region)
    elif tool == "docker" and words[:1] == ["buildx"]:
        for reference in _of(words, "--tag"):
            yield from _in_ecr(reference, PUSH)
        # A build fetches the images that its contexts and its arguments name.
        named = [*_of(words, "--build-context"), *_of(words, "--build-arg")]
        sources = [words[-1]] if words[1] == "imagetools" else named
        for reference in sources:
            yield from _in_ecr(reference, PULL)
    elif tool == "helm" and words[:1] == ["push"]:
        # Helm names the repository after the chart, and so is the archive.
        yield from _in_ecr(f"{words[2]}/{PurePath(words[1]).stem}", PUSH)
    elif tool == "helm" and words[:1] in (["pull"], ["upgrade"]):
        for reference in (word for word in words if word.startswith("oci://")):
            yield from _in_ecr(reference, PULL)


def _of_the_aws_cli(words: Sequence[str], region: str) -> Iterator[Needed]:
    operation = " ".join(words[:2])
    if operation == "s3 cp":
        source, target = words[2:4]
        yield ("s3:GetObject", _object(source)) if source.startswith("s3://") else ("s3:PutObject", _object(target))
    elif operation == "s3 sync" and "--delete" in words:
        bucket = words[3].removeprefix("s3://").partition("/")[0]
        yield "s3:ListBucket", f"arn:aws:s3:::{bucket}"
        for action in ("s3:PutObject", "s3:DeleteObject"):
            yield action, f"{_object(words[3])}a"
    elif operation == "s3api put-object":
        (bucket,), (key,) = _of(words, "--bucket"), _of(words, "--key")
        yield "s3:PutObject", _object(f"{bucket}/{key}")
    elif operation.startswith(("s3 ", "s3api ")):
        raise ValueError(f"aws {operation}: say which actions it needs")
    else:
        option, form = RESOURCES.get(operation, ("", "*"))
        value = words[words.index(option) + 1] if option else ""
        region = words[words.index("--region") + 1] if "--region" in words else region
        yield CUSTOM.get(operation) or _action(*words[:2]), form.format(region=region, account=ACCOUNT, value=value)


def _action(service: str, command: str) -> str:
    """Return the IAM action of an operation, whose name is that of the API."""
    model = botocore.session.get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    if command not in names:
        raise ValueError(f"aws {service} {command} is no operation of the API")
    return f"{service}:{names[command]}"


def _object(location: str) -> str:
    return f"arn:aws:s3:::{location.removeprefix('s3://')}"


def _of(words: Sequence[str], option: str) -> list[str]:
    return [words[number + 1] for number, word in enumerate(words) if word == option]


def _in_ecr(reference: str, actions: Sequence[str]) -> Iterator[Needed]:
    if match := IN_ECR.search(reference):
        account, region, name = match.groups()
        for action in actions:
            yield action, f"arn:aws:ecr:{region}:{account}:repository/{name}"
