"""What a program needs on its node before it starts: code, packages, and secrets."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from trainway.launch.node.exit_statuses import CannotStart, StoppedBefore
from trainway.launch.node.process_tree import SECONDS_BETWEEN_LOOKS, begin
from trainway.launch.node.stop_request import RankSignals, StopRequest
from trainway.launch.node.synced_code import SUFFIX, unpacked


def with_packages(
    lock: "str | None", environment: "dict[str, str]", stop: "StopRequest | RankSignals"
) -> "dict[str, str]":
    """Return the environment with the packages of a lock before those of Python. Install them if they are absent.

    Raises CannotStart with the reason, and StoppedBefore.
    """
    if lock is None:
        return environment
    directories = (("--shared", "TRAINWAY_PACKAGES"), ("--here", "TRAINWAY_PACKAGES_HERE"))
    options = [f"{option}={environment[name]}" for option, name in directories if name in environment]
    found = said_by("install_packages.py", [lock, *options], environment, stop)
    before = {"PATH": f"{found}/bin", "PYTHONPATH": found}
    return {
        **environment,
        **{name: os.pathsep.join(filter(None, (first, environment.get(name)))) for name, first in before.items()},
    }


def code_directory(where: "str | None", run: Path, environment: "dict[str, str]", stop: StopRequest) -> Path:
    """Return the directory in which the program starts: the code's, or the run's without code.

    The code of an archive is named by its SHA-256. Raises CannotStart, and StoppedBefore.
    """
    if where is None or not where.endswith(SUFFIX):
        return Path(where or run)
    content = archive_content(where, environment, stop)
    return unpacked(where, content, Path(f"/tmp/trainway-code-{os.geteuid()}"))


def archive_content(where: str, environment: "dict[str, str]", stop: StopRequest) -> bytes:
    """Return the content of an archive in S3 or on a file system. Raises CannotStart, and StoppedBefore."""
    if not where.startswith("s3://"):
        return Path(where).read_bytes()
    with tempfile.TemporaryDirectory() as fetched:
        archive = Path(fetched) / "archive"
        said_by("aws_on_node.py", ["object", where, str(archive)], environment, stop)
        return archive.read_bytes()


def read_secrets(
    asked: "list[str]", environment: "dict[str, str]", stop: "StopRequest | RankSignals"
) -> "dict[str, str]":
    """Return the values of secrets by their variables. Raises CannotStart with the reason, and StoppedBefore."""
    if not asked:
        return {}
    values: dict[str, str] = json.loads(said_by("aws_on_node.py", ["secrets", *asked], environment, stop))
    return values


def said_by(helper: str, words: "list[str]", environment: "dict[str, str]", stop: "StopRequest | RankSignals") -> str:
    """Return what a file beside this one prints. Raise CannotStart with what it printed, and StoppedBefore."""
    # A group of its own, so that what it starts ends with it.
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(helper)), *words],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=begin,
    )
    assert process.stdout is not None
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(process.stdout.read()), daemon=True)  # type: ignore[union-attr]
    reader.start()
    while process.poll() is None:
        stop.look()
        if stop.asked_at is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise StoppedBefore
        time.sleep(SECONDS_BETWEEN_LOOKS)
    reader.join()
    text = "".join(said).strip()
    if process.returncode:
        raise CannotStart(text or f"{helper} ended with status {process.returncode}", process.returncode)
    return text
