"""What a program needs on its node before it starts: code, packages, and secrets."""

import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from trainway.launch.node.exit_statuses import CannotStart, StoppedBefore
from trainway.launch.node.process_tree import SECONDS_BETWEEN_LOOKS, begin
from trainway.launch.node.stop_request import RankSignals, StopRequest


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
    if where is None or not where.endswith(".tar.gz"):
        return Path(where or run)
    digest = where.rpartition("/")[2][: -len(".tar.gz")]
    content = archive_content(where, environment, stop)
    if hashlib.sha256(content).hexdigest() != digest:
        raise CannotStart(f"the code at {where} has another SHA-256 than its name: launch again")
    private_code = beside("private_code")
    try:
        code: Path = private_code.unpack(content, digest, Path(f"/tmp/trainway-code-{os.geteuid()}"))
    except private_code.UnsafeCodeDirectory as problem:
        raise CannotStart(str(problem)) from None
    except OSError as problem:
        raise CannotStart(f"the code at {where} cannot be unpacked: {problem}", 1) from None
    return code


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


def beside(name: str) -> Any:
    """Return the module in a file beside this one, which is in no package on a node."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
