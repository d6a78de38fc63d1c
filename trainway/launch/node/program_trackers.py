"""The trackers of a program on its first node: a run is opened before the program starts, or its files stay here.

The packages of the trackers raise an exception in a program whose server does not answer, or refuses the key. So each
run is opened in another process first. If that fails, the program gets the variables by which the package writes files
into the directory of the run.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from trainway.launch.node.exit_statuses import StoppedBefore
from trainway.launch.node.process_tree import SECONDS_BETWEEN_LOOKS, begin
from trainway.launch.node.stop_request import StopRequest

_MPI_VARIABLES = "OMPI_MCA_mca_base_env_list"


def with_trackers(
    trackers: "list[str]", environment: "dict[str, str]", run: Path, stop: StopRequest
) -> "dict[str, str]":
    """Return the environment of the program with the variables of its runs in the trackers.

    `environment` has the secrets. A variable that it has is kept, unless the tracker does not work. Raises
    StoppedBefore.
    """
    changed: dict[str, str] = {}
    opening: dict[str, subprocess.Popen[str]] = {}
    for tracker in trackers:
        directory = run / "trackers" / tracker
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
        changed.update(
            {name: value for name, value in _settings(tracker, directory).items() if name not in environment}
        )
        if not _is_offline(tracker, environment):
            opening[tracker] = _opened(tracker, directory, {**environment, **changed})
    # The processes wait for their servers at the same time.
    ends = time.monotonic() + float(environment.get("TRAINWAY_TRACKER_SECONDS", "60"))
    for tracker, process in opening.items():
        directory = run / "trackers" / tracker
        found = _answer(process, ends, stop, opening)
        changed.update(found.get("variables", {}))
        if "reason" not in found:
            continue
        if found["installed"]:
            changed.update(_offline(tracker, directory))
            then = f"the program starts without it, and the metrics are in {directory}"
        else:
            then = "the program may have another Python"
        reason = f"trackers.{tracker} does not work: {found['reason']}"
        print(f"trainway: warning: {reason}; {then}", file=sys.stderr, flush=True)
    if _MPI_VARIABLES in environment:
        passed_on = environment[_MPI_VARIABLES].split(";")
        changed[_MPI_VARIABLES] = ";".join([*passed_on, *(name for name in changed if name not in passed_on)])
    return {**environment, **changed}


def _settings(tracker: str, directory: Path) -> "dict[str, str]":
    """Return the variables by which a server that stops answering does not stop the program, and is not waited for.

    https://mlflow.org/docs/latest/api_reference/python_api/mlflow.environment_variables.html,
    wandb/sdk/wandb_settings.py of W&B 0.31.0, and https://www.comet.com/docs/v2/guides/experiment-management/
    configure-sdk/ (read 2026-12-01)
    """
    return {
        "mlflow": {
            "MLFLOW_ENABLE_ASYNC_LOGGING": "true",
            "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
        },
        "wandb": {"WANDB_DIR": str(directory), "WANDB_FINISH_TIMEOUT": "60"},
        "comet": {"COMET_OFFLINE_DIRECTORY": str(directory)},
    }[tracker]


def _offline(tracker: str, directory: Path) -> "dict[str, str]":
    """Return the variables by which a package writes files into the directory instead."""
    return {
        "mlflow": {"MLFLOW_TRACKING_URI": directory.as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"},
        "wandb": {"WANDB_MODE": "offline"},
        "comet": {"COMET_START_ONLINE": "0"},
    }[tracker]


def _is_offline(tracker: str, environment: "dict[str, str]") -> bool:
    """Return whether the job file has the package write files."""
    return environment.get({"wandb": "WANDB_MODE", "comet": "COMET_START_ONLINE"}.get(tracker, "")) in ("offline", "0")


def _opened(tracker: str, directory: Path, environment: "dict[str, str]") -> "subprocess.Popen[str]":
    # A group of its own, so that what it starts ends with it.
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("open_tracker.py")), tracker, f"{directory}.log"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=begin,
    )


def _answer(
    process: "subprocess.Popen[str]", ends: float, stop: StopRequest, opening: "dict[str, subprocess.Popen[str]]"
) -> "dict[str, Any]":
    """Return what a process found, or that it did not end in time. Raises StoppedBefore."""
    while process.poll() is None and time.monotonic() < ends:
        stop.look()
        if stop.asked_at is not None:
            for each in opening.values():
                _kill(each)
            raise StoppedBefore
        time.sleep(SECONDS_BETWEEN_LOOKS)
    if process.poll() is None:
        _kill(process)
        return {"installed": True, "reason": "it did not answer in time"}
    try:
        found: dict[str, Any] = json.loads(process.communicate()[0])
    except ValueError:
        found = {"installed": True, "reason": f"the package ended with status {process.returncode}"}
    return found


def _kill(process: "subprocess.Popen[str]") -> None:
    """End a process with its group, unless it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
