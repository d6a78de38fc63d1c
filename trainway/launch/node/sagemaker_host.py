"""The first process on a host of a SageMaker training job: it starts the command, and tells it who the hosts are.

    python3 sagemaker_host.py --port=29500 [--code=ARCHIVE] [--channel=LOCATION=NAME]… -- COMMAND

The files of this directory are in an input channel of the job. They require Python 3.9. Where no file system has the
directory of the run, they also require boto3 or the AWS CLI.

SageMaker writes down who the hosts are, and says that the container's own host name is not to be trusted.
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html (read 2026-11-21)
"""

import argparse
import contextlib
import json
import os
import socket
import sys
import tempfile
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    # On a host, this file and its siblings are in one directory, without the packages above them.
    _package = types.ModuleType("trainway.launch.node")
    _package.__path__ = [str(Path(__file__).parent)]
    sys.modules[_package.__name__] = _package

from trainway.launch.node.exit_statuses import FAILED, NOT_FOUND, CannotStart, StoppedBefore, stopped_status
from trainway.launch.node.first_cause import first_cause
from trainway.launch.node.first_process import continue_as_child
from trainway.launch.node.job_user import become_job_user
from trainway.launch.node.passed_signals import PassedSignals
from trainway.launch.node.run_files import CannotReach, NodeFiles
from trainway.launch.node.synced_code import fetched

INPUT = Path("/opt/ml/input")
FAILURE = Path("/opt/ml/output/failure")
# What the job may write to, and what SageMaker's agent made as root.
_OF_THE_JOB = (Path("/opt/ml/checkpoints"), Path("/opt/ml/model"), Path("/opt/ml/output"))
# Beside the files of a run in the bucket: those of the launcher, and what SageMaker writes.
_OTHERS = ("job/", "output/")
# The page above says "Hostname information may not be immediately available", but not for how long. Hosts do not start
# together either, and torchrun ends the job if the first host does not answer for a minute.
SECONDS_UNTIL_HOSTS_ARE_THERE = 900


class Hosts(NamedTuple):
    """The hosts of a job. This is host `current`. The hosts communicate over `interface`."""

    names: "tuple[str, ...]"
    current: str
    interface: str


def main(arguments: "list[str]", signals: PassedSignals) -> int:
    """Run one host's part of a SageMaker training job, and return its exit status.

    `signals` are those that arrive at this process.
    """
    parser = argparse.ArgumentParser(description="Start a command on a host of a training job.")
    parser.add_argument("--port", type=int, required=True, help="port of the rendezvous on the first host")
    parser.add_argument("--code", metavar="ARCHIVE", help="code that is imported before the image's")
    parser.add_argument(
        "--channel",
        action="append",
        default=[],
        metavar="LOCATION=NAME",
        help="input channel that holds the data of a location of the job file",
    )
    parser.add_argument("command", nargs="+", help="command to run, after --")
    asked = parser.parse_args(arguments)
    files = None
    try:
        hosts = read_hosts(INPUT / "config/resourceconfig.json")
        run, location = Path(os.environ["TRAINWAY_RUN"]), os.environ.get("TRAINWAY_RUN_LOCATION")
        os.environ.update(become_job_user([*_OF_THE_JOB, run], [Path(tempfile.gettempdir())]))
        if location:
            files = NodeFiles(run, location, others=_OTHERS)
            files.restore()
        environment = host_environment(os.environ, hosts, port=asked.port, channels=asked.channel)
        if asked.code:
            code = fetched(asked.code, Path(tempfile.gettempdir()) / "trainway-code")
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(code), environment.get("PYTHONPATH"))))
        wait_for_first(hosts, asked.port, signals)
        status = signals.run(asked.command, environment)
    except StoppedBefore:
        return stopped_status()
    except CannotReach as problem:
        return _failed(f"the files of the run cannot be read: {problem}", problem.status)
    except CannotStart as problem:
        return _failed(str(problem), problem.status)
    except OSError as problem:
        return _failed(f"{asked.command[0]} cannot start: {problem}", NOT_FOUND)
    if status and not signals.arrived:
        _write_failure(first_cause(Path(environment["TRAINWAY_RUN"]), Path(environment["PET_LOG_DIR"]), status))
    try:
        if files is not None:
            files.close()
    except CannotReach as problem:
        _say(f"the files of the run are not complete in the bucket: {problem}")
        return status or FAILED
    return status


def _failed(why: str, status: int) -> int:
    """Say why nothing was started, and return the exit status."""
    _say(why)
    _write_failure(why)
    return status


def _say(what: str) -> None:
    print(f"trainway: {what}", file=sys.stderr, flush=True)


def _write_failure(cause: str) -> None:
    """Write the cause where SageMaker looks for it. Without the directory, it stays in the log."""
    with contextlib.suppress(OSError):
        FAILURE.write_text(f"{cause}\n", encoding="utf-8")


def read_hosts(file: Path) -> Hosts:
    """Return the hosts that SageMaker has recorded in a file. Raises CannotStart if the file does not exist."""
    if not file.is_file():
        raise CannotStart(f"{file}: there is no such file; this runs on the hosts of a SageMaker training job only")
    written = json.loads(file.read_text())
    return Hosts(tuple(written["hosts"]), written["current_host"], written["network_interface_name"])


def host_environment(told: "Mapping[str, str]", hosts: Hosts, *, port: int, channels: "list[str]") -> "dict[str, str]":
    """Return the environment of the command: `told`, and the values that only the host knows.

    The first host runs the rendezvous, and finds by `is_host` that it is the first. The other hosts reach it and its
    ranks by the name that SageMaker gives the host.
    """
    run = _writable(Path(told["TRAINWAY_RUN"]))
    first = hosts.names[0]
    is_first = f"is_host={'true' if hosts.current == first else 'false'}"
    channel_of = dict(channel.rsplit("=", 1) for channel in channels)
    locations = json.loads(told.get("TRAINWAY_LOCATIONS", "{}"))
    return {
        # Cache shards from S3 on the large disk. The home directory is on a small one.
        # https://docs.aws.amazon.com/sagemaker/latest/dg/model-train-storage.html (read 2026-11-21)
        "XDG_CACHE_HOME": tempfile.gettempdir(),
        **told,
        "TRAINWAY_LOCATIONS": json.dumps(
            locations | {location: str(INPUT / "data" / name) for location, name in channel_of.items()}, sort_keys=True
        ),
        "TRAINWAY_RUN": str(run),
        "PET_LOG_DIR": str(run / "logs" / hosts.current),
        "PET_LOCAL_ADDR": hosts.current,
        "NODE_NAME": hosts.current,
        "TRAINWAY_NODE_RANK": str(hosts.names.index(hosts.current)),
        "PET_RDZV_ENDPOINT": f"{first}:{port}",
        "PET_RDZV_CONF": ",".join(filter(None, (told.get("PET_RDZV_CONF"), is_first))),
        "GLOO_SOCKET_IFNAME": hosts.interface,
        "NCCL_SOCKET_IFNAME": hosts.interface,
    }


def wait_for_first(
    hosts: Hosts, port: int, signals: PassedSignals, seconds: float = SECONDS_UNTIL_HOSTS_ARE_THERE
) -> None:
    """Wait until the first host listens. On the first host itself, wait until its name resolves.

    Raises CannotStart if the first host is not reachable after `seconds`, and StoppedBefore after a signal.
    """
    first, end = hosts.names[0], time.monotonic() + seconds
    while True:
        if signals.arrived:
            raise StoppedBefore
        try:
            if hosts.current == first:
                socket.getaddrinfo(first, port)
            else:
                socket.create_connection((first, port), timeout=5).close()
            return
        except OSError as problem:
            if time.monotonic() >= end:
                why = f"{first}: port {port} cannot be reached after {seconds:.0f} seconds: {problem}"
                raise CannotStart(why, FAILED) from None
        time.sleep(min(1.0, seconds))


def _writable(run: Path) -> Path:
    """Return the run's directory, or another one if the image's user cannot write to it."""
    with contextlib.suppress(OSError):
        run.mkdir(parents=True, exist_ok=True)
    if os.access(run, os.W_OK):
        return run
    other = Path(tempfile.mkdtemp(prefix="trainway-run-"))
    _say(f"{run} cannot be written to: metrics.jsonl and TensorBoard stay in {other} of this host")
    return other


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], continue_as_child()))
