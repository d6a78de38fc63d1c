"""Keep the files of a run in S3 on a node whose file system, if it has one, does not mirror the bucket.

    python3 run_files.py [--shared] --directory DIRECTORY --location s3://bucket/runs/NAME -- COMMAND

While the command runs, files that changed are uploaded every SECONDS_BETWEEN_UPLOADS, and a last time at the end,
however the command ended. Nothing is deleted in S3.

On a disk of the node, the directory first gets the files that earlier attempts left in S3, except their logs. The exit
status is that of the command, 127 if trying again cannot help, or 1 if S3 does not answer.

With --shared, the nodes of the run share the directory, which has those files. Each node uploads its own logs and its
own record of the attempt, and the first node uploads everything else. The exit status is that of the command: the files
are safe without S3.

The launcher sends this file, node_rank.py, and passed_signals.py to the node beside the job file. They require Python
3.9, and boto3 or the AWS CLI. The program uses the credentials of the pod.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import threading
import types
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    # On a node, this file and its sibling are in one directory, without the packages above them.
    _package = types.ModuleType("trainway.launch.node")
    _package.__path__ = [str(Path(__file__).parent)]
    sys.modules[_package.__name__] = _package

from trainway.launch.node.node_rank import node_rank
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


class StoredObject(NamedTuple):
    """An object of a bucket. Its size is in bytes, and the time of its last change in seconds since 1970."""

    key: str
    size: int
    changed: float


class NodeFiles:
    """The directory of a run on this node, and its copy below `location` in S3.

    `rank` is the number of this node if the nodes of the run share the directory, and None if each has its own. The
    objects in S3 whose names begin with one of `others` are no files of the run.
    """

    def __init__(
        self, directory: Path, location: str, rank: "int | None" = None, others: "tuple[str, ...]" = ()
    ) -> None:
        self._directory, self._rank = directory, rank
        # Each attempt has logs of its own. Programs that list a bucket can leave objects that stand for folders.
        self._others = ("logs/", *others)
        self._bucket, _, self._prefix = location[len("s3://") :].rstrip("/").partition("/")
        self._known: dict[str, tuple[int, int]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._upload_now_and_then, daemon=True)
        self._s3 = _client()

    def restore(self) -> None:
        """Copy what earlier attempts left in S3 to the directory, and begin to upload. Raises CannotReach."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for each in self._s3.objects(self._bucket, f"{self._prefix}/"):
            name = each.key[len(self._prefix) + 1 :]
            if name.startswith(self._others) or not _is_below(name):
                continue
            path = self._directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._s3.download(self._bucket, each.key, path)
            self._known[name] = _state(path)
        self._thread.start()

    def begin(self) -> None:
        """Begin to upload the files of a shared directory."""
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
        self._upload(_files_below(self._directory) if self._rank is None else self._own_files(self._rank))

    def _own_files(self, rank: int) -> "Iterator[Path]":
        """Yield the files of a shared directory that this node uploads.

        Only the first node lists the whole directory. Many nodes that list it would be a load for the file system.
        """
        if rank == 0:
            yield from _files_below(self._directory, skipped=self._directory / "logs")
        else:
            yield from (self._directory / "attempts").glob(f"*/node-{rank}.json")
            yield from (self._directory / "attempts").glob("*/failure")
        # A program can log elsewhere.
        own_logs = Path(os.environ.get("PET_LOG_DIR", ""))
        if own_logs.is_relative_to(self._directory):
            yield from _files_below(own_logs)

    def _upload(self, files: "Iterator[Path]") -> None:
        changed = []
        for path in files:
            name = path.relative_to(self._directory).as_posix()
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink() and self._known.get(name) != (state := _state(path)):
                    changed.append((state[1], name, state))
        for _, name, state in sorted(changed):
            # The job may have deleted it meanwhile.
            try:
                key = f"{self._prefix}/{name}"
                self._s3.upload(self._bucket, key, self._directory / name, only_first=_is_first_word(name))
                self._known[name] = state
            except FileNotFoundError:
                continue
            except OSError as problem:
                # For example a file that the program has closed to its own user.
                raise CannotReach(f"{self._directory / name} cannot be read: {problem.strerror}") from None

    def _upload_what_was_there(self, before: "dict[Path, tuple[int, int]]") -> None:
        """Upload the files of earlier attempts in a shared directory that S3 does not have. Raises CannotReach.

        `before` are the files at the start of this attempt. A file that has changed since is uploaded by the node that
        writes it. A node that was lost could not upload the last lines of its logs. Their times can be ahead of the
        clock of this node.
        """
        for each in self._s3.objects(self._bucket, f"{self._prefix}/"):
            name = each.key[len(self._prefix) + 1 :]
            with contextlib.suppress(OSError):
                state = _state(self._directory / name)
                if state[0] == each.size and state[1] <= each.changed * 1e9:
                    self._known[name] = state
        self._upload(path for path, state in before.items() if _states([path]).get(path) == state)

    def _upload_now_and_then(self) -> None:
        before = _states(_files_below(self._directory)) if self._rank == 0 else {}
        is_last = False
        while not is_last:
            is_last = self._ended.wait(SECONDS_BETWEEN_UPLOADS)
            try:
                if before:
                    self._upload_what_was_there(before)
                    before = {}
                if not is_last:
                    self.upload()
            except CannotReach as problem:
                # The job continues, and the next time may succeed. The last time reports its failure.
                _say(f"the files of the run cannot be uploaded now: {problem}")


def main(arguments: "list[str]") -> int:
    """Run the command between the first and the last copy of the files, and return its exit status."""
    parser = argparse.ArgumentParser(description="Keep the files of a run in S3 while a command runs.")
    parser.add_argument("--directory", type=Path, required=True, help="directory of the run on this node")
    parser.add_argument("--location", required=True, help="s3://bucket/prefix of the run")
    parser.add_argument("--shared", action="store_true", help="all nodes of the run have this directory")
    parser.add_argument("command", nargs="+", help="command to run, after --")
    asked = parser.parse_args(arguments)
    signals = PassedSignals()
    files = None
    try:
        files = NodeFiles(asked.directory, asked.location, node_rank() if asked.shared else None)
        if asked.shared:
            files.begin()
        else:
            files.restore()
    except CannotReach as problem:
        if not asked.shared:
            _say(f"the files of the run cannot be read: {problem}")
            return problem.status
        files = None
        _say(f"the files of the run are not copied to {asked.location}: {problem}")
    # Nodes without a common directory find the files of the others there (run_state.py).
    environment = os.environ if asked.shared else {**os.environ, "TRAINWAY_RUN_LOCATION": asked.location}
    try:
        status = signals.run(asked.command, environment)
    except OSError as problem:
        _say(f"{asked.command[0]} cannot start: {problem}")
        status = FAILED_FOR_GOOD
    try:
        if files is not None:
            files.close()
    except CannotReach as problem:
        _say(f"the files of the run are not complete in {asked.location}: {problem}")
        return status if asked.shared else status or FAILED
    return status


def _files_below(directory: Path, skipped: "Path | None" = None) -> "Iterator[Path]":
    """Yield the files below a directory, without those below `skipped`."""
    for parent, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if Path(parent, name) != skipped]
        yield from (Path(parent, name) for name in names)


def _states(files: "Iterable[Path]") -> "dict[Path, tuple[int, int]]":
    """Return the states of the files that exist."""
    found = {}
    for path in files:
        with contextlib.suppress(FileNotFoundError):
            found[path] = _state(path)
    return found


def _is_below(name: str) -> bool:
    """Return whether the name of an object is that of a file below the directory of the run.

    Any key can be in a bucket: an object that stands for a folder, a key with `//`, whose name after the first `/` is
    an absolute path, or a key with `..`.
    """
    return bool(name) and not name.startswith("/") and not name.endswith("/") and ".." not in Path(name).parts


def _is_first_word(name: str) -> bool:
    """Return whether the first node that writes a file decides on its content: how an attempt, or the launch, ended."""
    parts = Path(name).parts
    is_end = parts[-1] in ("failure", "first-end") or parts[-1].startswith("end-of-")
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
        why = "this image has neither boto3 nor the AWS CLI, which copy the files of the run; add one to the image"
        raise CannotReach(why, _FOR_GOOD[0])
    return _Cli(program)


class _Boto3:
    """S3 by boto3."""

    def __init__(self) -> None:
        import boto3
        from botocore.config import Config

        retries = Config(retries={"mode": "adaptive", "total_max_attempts": int(RETRIES["AWS_MAX_ATTEMPTS"])})
        self._s3: Any = boto3.client("s3", region_name=os.environ.get("AWS_REGION"), config=retries)

    def objects(self, bucket: str, prefix: str) -> "list[StoredObject]":
        with _explained(f"s3://{bucket}/{prefix}"):
            pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            found = [each for page in pages for each in page.get("Contents", ())]
            return [StoredObject(each["Key"], each["Size"], each["LastModified"].timestamp()) for each in found]

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

    def objects(self, bucket: str, prefix: str) -> "list[StoredObject]":
        query = ("--query", "Contents[].[Size, LastModified, Key]", "--output", "text")
        found = self._aws("s3api", "list-objects-v2", "--bucket", bucket, "--prefix", prefix, *query)
        objects = []
        for line in found.splitlines():
            if line and line != "None":
                size, changed, key = line.split("\t", 2)
                # Version 1 of the AWS CLI writes Z for the time zone, which fromisoformat of Python 3.9 does not read.
                moment = datetime.fromisoformat(changed.replace("Z", "+00:00"))
                objects.append(StoredObject(key, int(size), moment.timestamp()))
        return objects

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
