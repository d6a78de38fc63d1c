"""Keep the files of a run in S3 on a node without a shared file system.

    python3 run_files.py --directory DIRECTORY --location s3://bucket/runs/NAME -- COMMAND

The directory first gets the files that earlier attempts left in S3, except their logs. While the command runs, files
that changed are uploaded every SECONDS_BETWEEN_UPLOADS, and a last time at the end, however the command ended. Nothing
is deleted in S3. The exit status is that of the command, 127 if trying again cannot help, or 1 if S3 does not answer.

The launcher sends this file and passed_signals.py to the node beside the job file. They require Python 3.9, and boto3
or the AWS CLI. The program uses the credentials of the pod.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # On a node, this file and its sibling are in one directory, without the packages above them.
    _package = types.ModuleType("trainway.launch.node")
    _package.__path__ = [str(Path(__file__).parent)]
    sys.modules[_package.__name__] = _package

from trainway.launch.node.passed_signals import PassedSignals

SECONDS_BETWEEN_UPLOADS = float(os.environ.get("TRAINWAY_RUN_FILES_SECONDS", "60"))
FAILED, FAILED_FOR_GOOD = 1, 127
# Many nodes ask at the same time. Adaptive mode also slows the client down when S3 answers that it is asked too often.
# https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html (read 2026-11-27)
RETRIES = {"AWS_RETRY_MODE": "adaptive", "AWS_MAX_ATTEMPTS": "10"}
# Errors of S3 that the same request gets again:
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html (read 2026-11-23)
_FOR_GOOD = ("AccessDenied", "NoSuchBucket", "InvalidAccessKeyId", "403")
# Answers to a conditional write of an object that exists, or that another node writes at the same time.
_EXISTS = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


class CannotReach(Exception):
    """S3 refuses a request, or does not answer. `status` is the exit status."""

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.status = FAILED_FOR_GOOD if code in _FOR_GOOD else FAILED


class NodeFiles:
    """The directory of a run on this node, and its copy below `location` in S3."""

    def __init__(self, directory: Path, location: str) -> None:
        self._directory = directory
        self._bucket, _, self._prefix = location[len("s3://") :].rstrip("/").partition("/")
        self._known: dict[str, tuple[int, int]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._upload_now_and_then, daemon=True)
        self._s3 = _client()

    def restore(self) -> None:
        """Copy what earlier attempts left in S3 to the directory, and begin to upload. Raises CannotReach."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for key in self._s3.keys(self._bucket, f"{self._prefix}/"):
            name = key[len(self._prefix) + 1 :]
            # Each attempt has logs of its own. Programs that list a bucket can leave objects that stand for folders.
            if name.startswith("logs/") or name.endswith("/") or ".." in Path(name).parts:
                continue
            path = self._directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._s3.download(self._bucket, key, path)
            self._known[name] = _state(path)
        self._thread.start()

    def close(self) -> None:
        """Upload what has changed since the last time, and end. Raises CannotReach."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self.upload()

    def upload(self) -> None:
        """Copy the files that changed to S3, the oldest first. Raises CannotReach.

        A program that writes a marker when its checkpoint is complete finds both in that order in S3.
        """
        changed = []
        for path in self._directory.rglob("*"):
            name = path.relative_to(self._directory).as_posix()
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink() and self._known.get(name) != (state := _state(path)):
                    changed.append((state[1], name, state))
        for _, name, state in sorted(changed):
            # The job may have deleted it meanwhile.
            with contextlib.suppress(FileNotFoundError):
                key = f"{self._prefix}/{name}"
                self._s3.upload(self._bucket, key, self._directory / name, only_first=_is_first_word(name))
                self._known[name] = state

    def _upload_now_and_then(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_UPLOADS):
            try:
                self.upload()
            except CannotReach as problem:
                # The job continues, and the next time may succeed. The last time reports its failure.
                _say(f"the files of the run cannot be uploaded now: {problem}")


def main(arguments: "list[str]") -> int:
    """Run the command between the first and the last copy of the files, and return its exit status."""
    parser = argparse.ArgumentParser(description="Keep the files of a run in S3 while a command runs.")
    parser.add_argument("--directory", type=Path, required=True, help="directory of the run on this node")
    parser.add_argument("--location", required=True, help="s3://bucket/prefix of the run")
    parser.add_argument("command", nargs="+", help="command to run, after --")
    asked = parser.parse_args(arguments)
    signals = PassedSignals()
    try:
        files = NodeFiles(asked.directory, asked.location)
        files.restore()
    except CannotReach as problem:
        _say(f"the files of the run cannot be read: {problem}")
        return problem.status
    try:
        status = signals.run(asked.command)
    except OSError as problem:
        _say(f"{asked.command[0]} cannot start: {problem}")
        status = FAILED_FOR_GOOD
    try:
        files.close()
    except CannotReach as problem:
        _say(f"the files of the run are not complete in {asked.location}: {problem}")
        return status or FAILED
    return status


def _is_first_word(name: str) -> bool:
    """Return whether the first node that writes a file decides on its content: why an attempt, or the launch, ended."""
    parts = Path(name).parts
    is_end = parts[-1] == "failure" or parts[-1].startswith("end-of-")
    return parts[0] == "attempts" and is_end


def _state(path: Path) -> "tuple[int, int]":
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _say(what: str) -> None:
    print(f"trainway: {what}", file=sys.stderr, flush=True)


def _client() -> "_Boto3 | _Cli":
    """Return the client that this node has. Raises CannotReach if it has none."""
    try:
        return _Boto3()
    except ImportError:
        program = shutil.which("aws")
    if program is None:
        why = "this image has neither boto3 nor the AWS CLI, and the platform has no file system; add one to the image"
        raise CannotReach(why, _FOR_GOOD[0])
    return _Cli(program)


class _Boto3:
    """S3 by boto3."""

    def __init__(self) -> None:
        import boto3
        from botocore.config import Config

        retries = Config(retries={"mode": "adaptive", "total_max_attempts": int(RETRIES["AWS_MAX_ATTEMPTS"])})
        self._s3: Any = boto3.client("s3", region_name=os.environ.get("AWS_REGION"), config=retries)

    def keys(self, bucket: str, prefix: str) -> "list[str]":
        with _explained(f"s3://{bucket}/{prefix}"):
            pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def download(self, bucket: str, key: str, path: Path) -> None:
        with _explained(f"s3://{bucket}/{key}"):
            self._s3.download_file(bucket, key, str(path))

    def upload(self, bucket: str, key: str, path: Path, *, only_first: bool) -> None:
        with _explained(f"s3://{bucket}/{key}", existing=only_first):
            if only_first:
                self._s3.put_object(Bucket=bucket, Key=key, Body=path.read_bytes(), IfNoneMatch="*")
            else:
                self._s3.upload_file(str(path), bucket, key)


@contextlib.contextmanager
def _explained(what: str, existing: bool = False) -> Any:
    """Raise CannotReach for errors of boto3. With `existing`, an object that is there already is no error."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if not (existing and code in _EXISTS):
            raise CannotReach(f"{what}: {code}: {error.response['Error'].get('Message', '')}", code) from None
    except (BotoCoreError, Boto3Error) as error:
        cause = error.__context__
        code = cause.response["Error"]["Code"] if isinstance(cause, ClientError) else ""
        raise CannotReach(f"{what}: {error}", code) from None


class _Cli:
    """S3 by the AWS CLI."""

    def __init__(self, program: str) -> None:
        self._program = program

    def keys(self, bucket: str, prefix: str) -> "list[str]":
        query = ("--query", "Contents[].[Key]", "--output", "text")
        found = self._aws("s3api", "list-objects-v2", "--bucket", bucket, "--prefix", prefix, *query)
        return [line for line in found.splitlines() if line and line != "None"]

    def download(self, bucket: str, key: str, path: Path) -> None:
        self._aws("s3", "cp", f"s3://{bucket}/{key}", str(path), "--only-show-errors")

    def upload(self, bucket: str, key: str, path: Path, *, only_first: bool) -> None:
        if not only_first:
            self._aws("s3", "cp", str(path), f"s3://{bucket}/{key}", "--only-show-errors")
            return
        words = ("s3api", "put-object", "--bucket", bucket, "--key", key, "--body", str(path), "--if-none-match", "*")
        try:
            self._aws(*words)
        except CannotReach as problem:
            if problem.code not in _EXISTS:
                raise

    def _aws(self, *words: str) -> str:
        region = os.environ.get("AWS_REGION")
        command = [self._program, *words, *(("--region", region) if region else ())]
        done = subprocess.run(command, env={**os.environ, **RETRIES}, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip() or f"aws ended with status {done.returncode}"
            code = said.partition("(")[2].partition(")")[0]
            raise CannotReach(said.splitlines()[-1], code)
        return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
