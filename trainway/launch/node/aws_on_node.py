"""Read secrets of AWS Secrets Manager or an object of S3, or write the state of a run, with the role of the job.

    python3 aws_on_node.py secrets HF_TOKEN=hugging-face DB=postgres#password
    python3 aws_on_node.py object s3://bucket/key FILE
    python3 aws_on_node.py state s3://bucket/key JSON [s3://bucket/prefix/ DIRECTORY]

The launcher sends this file to the node beside the starter of a program. It uses the boto3 of its Python or, without
boto3, the AWS CLI. `secrets` prints a JSON object with the values, which the starter reads from a pipe. No value is in
an argument or on disk. `state` also copies the files of nodes below a prefix into a directory, if it is told to.

The exit status is 0, 127 if trying again cannot help, or 1. After a failure, the reason is printed instead.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FAILED, FAILED_FOR_GOOD = 1, 127
# Errors of Secrets Manager and S3 that the same request gets again:
# https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html#API_GetSecretValue_Errors
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html (read 2026-11-23)
_FOR_GOOD = (
    "AccessDenied",
    "AccessDeniedException",
    "DecryptionFailure",
    "InvalidParameterException",
    "InvalidRequestException",
    "NoSuchBucket",
    "NoSuchKey",
    "ResourceNotFoundException",
    "ValidationException",
)

_MOST_BYTES_OF_NODE = 4096
# Answers of S3 to a conditional write, if another one happened meanwhile.
_MEANWHILE = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409", "NoSuchKey")

# What the state keeps of an earlier attempt, and of how many. training/observe/run_state.py has the same.
_OF_EARLIER = ("attempt", "started", "written", "state", "first_step", "step", "stepping", "productive", "exit_status")
_MOST_EARLIER = 100
_LONGEST_REASON = 300


class CannotRead(Exception):
    """What cannot be read, and with which exit status."""

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.status = FAILED_FOR_GOOD if code in _FOR_GOOD else FAILED


def main(arguments: "list[str]") -> int:
    """Print what was asked for, or why it cannot be read, and return the exit status."""
    kind, *rest = arguments
    try:
        if kind == "object":
            fetch_object(rest[0], rest[1])
        elif kind == "state":
            write_state(rest[0], rest[1])
            if len(rest) > 2:
                fetch_nodes(rest[2], Path(rest[3]))
        else:
            print(json.dumps({name: secret(text) for name, _, text in (each.partition("=") for each in rest)}))
    except CannotRead as problem:
        print(problem)
        return problem.status
    return 0


def secret(text: str) -> str:
    """Return the value of a secret, or of one key of its JSON: `NAME` or `NAME#KEY`. Raises CannotRead."""
    name, _, key = text.partition("#")
    value = _with_boto3("secretsmanager", _region_of(name), "get_secret_value", SecretId=name)
    if value is None:
        words = ["secretsmanager", "get-secret-value", "--secret-id", name, "--output", "json"]
        value = json.loads(_with_cli(f"the secret {name}", words, _region_of(name)))
    if "SecretString" not in value:
        raise CannotRead(f"the secret {name} is binary, and an environment variable is text", "ValidationException")
    found = str(value["SecretString"])
    if not key:
        return found
    try:
        return str(json.loads(found)[key])
    except (ValueError, KeyError, TypeError):
        raise CannotRead(f"the secret {name} is no JSON object with the key {key}", "ValidationException") from None


def fetch_object(location: str, file: str) -> None:
    """Write an object of S3 to a file. Raises CannotRead."""
    bucket, _, key = location[len("s3://") :].partition("/")
    answer = _with_boto3("s3", os.environ.get("AWS_REGION"), "get_object", Bucket=bucket, Key=key)
    if answer is None:
        _with_cli(location, ["s3api", "get-object", "--bucket", bucket, "--key", key, file], None)
        return
    with Path(file).open("wb") as target:
        shutil.copyfileobj(answer["Body"], target)


def write_state(location: str, text: str) -> None:
    """Write the state of a run to an object of S3. Raises CannotRead.

    A failure that any node has written for the same attempt stays: the other nodes are stopped because of it. The write
    is conditional, so that it cannot undo one that happens at the same time.
    """
    state: dict[str, Any] = json.loads(text)
    bucket, _, key = location[len("s3://") :].partition("/")
    for is_last in (False, False, False, True):
        before, condition = _state_before(bucket, key)
        if before.get("attempt") == state["attempt"]:
            failed = {name: before.get(name) for name in ("state", "reason", "exit_status")}
            state = {**before, **state, **(failed if before.get("state") == "failed" else {})}
        else:
            state["earlier"] = _with_last(before)
        try:
            _put_object(bucket, key, json.dumps(state), condition)
        except CannotRead as problem:
            if is_last or problem.code not in _MEANWHILE:
                raise
            continue
        return


def _with_last(before: "dict[str, Any]") -> "list[Any]":
    """Return what is kept of the attempts up to that of the state before, the oldest first."""
    if "attempt" not in before:
        return []
    last = {name: before[name] for name in _OF_EARLIER if before.get(name) is not None}
    if before.get("reason"):
        last["reason"] = str(before["reason"])[:_LONGEST_REASON]
    return [*before.get("earlier", []), last][-_MOST_EARLIER:]


def fetch_nodes(location: str, directory: Path) -> None:
    """Copy the files of the nodes below a location of S3 into a directory. Raises CannotRead.

    nodes_of_run.py writes them and reads the copies. A node has one small file, whose name is its number.
    """
    bucket, _, prefix = location[len("s3://") :].partition("/")
    region = os.environ.get("AWS_REGION")
    # One page has a thousand objects.
    listed = _with_boto3("s3", region, "list_objects_v2", False, Bucket=bucket, Prefix=prefix)
    if listed is None:
        only = ("--exclude", "*", "--include", "*.json", "--only-show-errors")
        _with_cli(location, ["s3", "cp", "--recursive", location, str(directory), *only], region)
        return
    for each in listed.get("Contents", ()):
        name = each["Key"][len(prefix) :]
        if re.fullmatch(r"\d{1,6}\.json", name) and each["Size"] <= _MOST_BYTES_OF_NODE:
            answer = _with_boto3("s3", region, "get_object", False, Bucket=bucket, Key=each["Key"])
            assert answer is not None
            (directory / name).write_bytes(answer["Body"].read())


def _state_before(bucket: str, key: str) -> "tuple[dict[str, Any], tuple[str, str]]":
    """Return the state that was written before, and the condition of a write: that the object is still the same."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "state"
        try:
            answer = _with_boto3("s3", os.environ.get("AWS_REGION"), "get_object", False, Bucket=bucket, Key=key)
            if answer is None:
                words = ["s3api", "get-object", "--bucket", bucket, "--key", key, "--output", "json", str(file)]
                answer = json.loads(_with_cli(key, words, os.environ.get("AWS_REGION")))
            else:
                file.write_bytes(answer["Body"].read())
        except CannotRead as problem:
            # S3 answers 403 for an absent object to those who cannot list the whole bucket.
            if problem.code not in ("NoSuchKey", "AccessDenied"):
                raise
            return {}, ("IfNoneMatch", "*")
        try:
            before: dict[str, Any] = json.loads(file.read_text())
        except ValueError:
            before = {}
        return before, ("IfMatch", answer["ETag"])


def _put_object(bucket: str, key: str, content: str, condition: "tuple[str, str]") -> None:
    region, (name, value) = os.environ.get("AWS_REGION"), condition
    parameters = {"Bucket": bucket, "Key": key, "Body": content, name: value}
    if _with_boto3("s3", region, "put_object", False, **parameters) is not None:
        return
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "state"
        file.write_text(content)
        option = {"IfMatch": "--if-match", "IfNoneMatch": "--if-none-match"}[name]
        words = ["s3api", "put-object", "--bucket", bucket, "--key", key, "--body", str(file), option, value]
        _with_cli(f"s3://{bucket}/{key}", words, region)


def _region_of(name: str) -> "str | None":
    """Return the Region of an ARN, or else that of the job."""
    return name.split(":")[3] if name.startswith("arn:") else os.environ.get("AWS_REGION")


def _with_boto3(
    service: str, region: "str | None", operation: str, is_patient: bool = True, **parameters: str
) -> "dict[str, Any] | None":
    """Return the answer of AWS, or None if this Python has no boto3."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return None
    what = " ".join(value for name, value in parameters.items() if name in ("Bucket", "Key", "SecretId"))
    try:
        waits = None if is_patient else Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2})
        client: Any = boto3.client(service, region_name=region, config=waits)  # type: ignore[call-overload]
        answer: dict[str, Any] = getattr(client, operation)(**parameters)
        return answer
    except ClientError as error:
        told = error.response["Error"]
        raise CannotRead(f"{what} cannot be read: {told['Code']}: {told['Message']}", told["Code"]) from None
    except BotoCoreError as error:
        raise CannotRead(f"{what} cannot be read: {error}") from None


def _with_cli(what: str, words: "list[str]", region: "str | None") -> str:
    """Return the output of the AWS CLI."""
    aws = shutil.which("aws")
    if aws is None:
        why = "this image has neither boto3 nor the AWS CLI; add boto3 to run.packages"
        raise CannotRead(f"{what} cannot be read: {why}", "ValidationException")
    where = ["--region", region] if region else []
    done = subprocess.run([aws, *words, *where], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip() or f"aws ended with status {done.returncode}"
        code = re.search(r"\((\w+)\)", said)
        raise CannotRead(f"{what} cannot be read: {said.splitlines()[-1]}", code.group(1) if code else "")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
