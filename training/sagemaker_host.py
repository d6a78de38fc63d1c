"""The first process on a host of a SageMaker training job: it starts torchrun, and tells it how hosts find each other.

    python -m training.sagemaker_host --port=29500 [--code=ARCHIVE] [--channel=LOCATION=NAME]… -- torchrun …

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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from training import synced_code
from training.errors import UserError
from training.sagemaker.first_cause import first_cause
from training.sagemaker.first_process import run_to_end
from training.sagemaker.job_user import become_job_user
from training.sagemaker.run_files import RunFiles

INPUT = Path("/opt/ml/input")
FAILURE = Path("/opt/ml/output/failure")
# What the job may write to, and what SageMaker's agent made as root.
_OF_THE_JOB = (Path("/opt/ml/checkpoints"), Path("/opt/ml/model"), Path("/opt/ml/output"))
# The page above says "Hostname information may not be immediately available", but not for how long. Hosts do not start
# together either, and torchrun ends the job if the first host does not answer for a minute.
SECONDS_UNTIL_HOSTS_ARE_THERE = 900


@dataclass(frozen=True)
class Hosts:
    """The hosts of a job. This is host `current`. The hosts communicate over `interface`."""

    names: tuple[str, ...]
    current: str
    interface: str


def main() -> None:
    """Run one host's part of a SageMaker training job, by the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="training.sagemaker_host", description="Start torchrun on a host.")
    parser.add_argument("--port", type=int, required=True, help="port of the rendezvous on the first host")
    parser.add_argument("--code", metavar="ARCHIVE", help="synced code, which takes precedence over the image's")
    parser.add_argument(
        "--channel",
        action="append",
        default=[],
        metavar="LOCATION=NAME",
        help="input channel that holds the data of a location of the job file",
    )
    parser.add_argument("command", nargs="+", help="command to run, after --")
    arguments = parser.parse_args()
    files = None
    try:
        hosts = read_hosts(INPUT / "config/resourceconfig.json")
        run, location = Path(os.environ["TRAINWAY_RUN"]), os.environ.get("TRAINWAY_RUN_LOCATION")
        files = RunFiles(run, location) if location else None
        os.environ.update(become_job_user([*_OF_THE_JOB, run], [Path(tempfile.gettempdir())]))
        if files:
            files.restore()
        environment = host_environment(os.environ, hosts, port=arguments.port, channels=arguments.channel)
        if arguments.code:
            code = synced_code.fetch(arguments.code, Path(tempfile.gettempdir()) / "trainway-code")
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(code), environment.get("PYTHONPATH"))))
        wait_for_first(hosts, arguments.port)
        status, stopped = run_to_end(arguments.command, environment)
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        _write_failure(str(error))
        sys.exit(2)
    if status and not stopped:
        _write_failure(first_cause(Path(environment["TRAINWAY_RUN"]), Path(environment["PET_LOG_DIR"]), status))
    if files:
        try:
            files.close()
        except UserError as error:
            print(f"the run's files are not complete in the bucket: {error}", file=sys.stderr)
            sys.exit(status or 1)
    sys.exit(status)


def _write_failure(cause: str) -> None:
    """Write the cause where SageMaker looks for it. Without the directory, it stays in the log."""
    with contextlib.suppress(OSError):
        FAILURE.write_text(f"{cause}\n", encoding="utf-8")


def read_hosts(file: Path) -> Hosts:
    """Return the hosts that SageMaker has recorded in a file.

    Raises:
        UserError: the file does not exist.
    """
    if not file.is_file():
        raise UserError(f"{file}: there is no such file; this runs on the hosts of a SageMaker training job only")
    written = json.loads(file.read_text())
    return Hosts(tuple(written["hosts"]), written["current_host"], written["network_interface_name"])


def host_environment(told: Mapping[str, str], hosts: Hosts, *, port: int, channels: list[str]) -> dict[str, str]:
    """Return the environment of torchrun: `told`, and the values that only the host knows.

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
        "TRAINWAY_NODE_RANK": str(hosts.names.index(hosts.current)),
        "PET_RDZV_ENDPOINT": f"{first}:{port}",
        "PET_RDZV_CONF": ",".join(filter(None, (told.get("PET_RDZV_CONF"), is_first))),
        "GLOO_SOCKET_IFNAME": hosts.interface,
        "NCCL_SOCKET_IFNAME": hosts.interface,
    }


def wait_for_first(hosts: Hosts, port: int, seconds: float = SECONDS_UNTIL_HOSTS_ARE_THERE) -> None:
    """Wait until the first host listens. On the first host itself, wait until its name resolves.

    Raises:
        UserError: the first host is not reachable after `seconds`.
    """
    first, end = hosts.names[0], time.monotonic() + seconds
    while True:
        try:
            if hosts.current == first:
                socket.getaddrinfo(first, port)
            else:
                socket.create_connection((first, port), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() >= end:
                raise UserError(
                    f"{first}: port {port} cannot be reached after {seconds:.0f} seconds: {error}"
                ) from error
        time.sleep(min(1.0, seconds))


def _writable(run: Path) -> Path:
    """Return the run's directory, or another one if the image's user cannot write to it."""
    with contextlib.suppress(OSError):
        run.mkdir(parents=True, exist_ok=True)
    if os.access(run, os.W_OK):
        return run
    other = Path(tempfile.mkdtemp(prefix="trainway-run-"))
    print(f"{run} cannot be written to: metrics.jsonl and TensorBoard stay in {other} of this host", file=sys.stderr)
    return other


if __name__ == "__main__":
    main()
