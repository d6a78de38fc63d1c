"""On a host of a SageMaker training job: tells torchrun how the hosts find each other, and becomes it.

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

INPUT = Path("/opt/ml/input")
# "Hostname information may not be immediately available", says the page above, and not for how long. Nor do hosts start
# together, and torchrun, with which the job would end, gives up after a minute in which the first one does not answer.
SECONDS_UNTIL_HOSTS_ARE_THERE = 900


@dataclass(frozen=True)
class Hosts:
    """The job's hosts, of which this is `current`; they speak to each other over `interface`."""

    names: tuple[str, ...]
    current: str
    interface: str


def main() -> None:
    """Run one host's part of a SageMaker training job, by the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="training.sagemaker_host", description="Start torchrun on a host.")
    parser.add_argument("--port", type=int, required=True, help="where the first host's rendezvous listens")
    parser.add_argument("--code", metavar="ARCHIVE", help="code that was synced, which comes before the image's")
    parser.add_argument(
        "--channel",
        action="append",
        default=[],
        metavar="LOCATION=NAME",
        help="an input channel that has what is at a location of the job file",
    )
    parser.add_argument("command", nargs="+", help="what to run, after --")
    arguments = parser.parse_args()
    try:
        hosts = read_hosts(INPUT / "config/resourceconfig.json")
        environment = host_environment(os.environ, hosts, port=arguments.port, channels=arguments.channel)
        if arguments.code:
            code = synced_code.fetch(arguments.code, Path(tempfile.gettempdir()) / "trainway-code")
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(code), environment.get("PYTHONPATH"))))
        wait_for_first(hosts, arguments.port)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    # So that the container's first process, which is the one that is told to stop, is torchrun.
    os.execvpe(arguments.command[0], arguments.command, environment)


def read_hosts(file: Path) -> Hosts:
    """What SageMaker has written down.

    Raises:
        UserError: there is no such file.
    """
    if not file.is_file():
        raise UserError(f"{file}: there is no such file; this runs on the hosts of a SageMaker training job only")
    written = json.loads(file.read_text())
    return Hosts(tuple(written["hosts"]), written["current_host"], written["network_interface_name"])


def host_environment(told: Mapping[str, str], hosts: Hosts, *, port: int, channels: list[str]) -> dict[str, str]:
    """The environment of torchrun: what the host was told, and what only the host knows.

    The first host has the rendezvous, and knows by `is_host` that it is the one. It and its ranks are spoken to by the
    name that SageMaker gives the host.
    """
    run = _writable(Path(told["TRAINWAY_RUN"]))
    first = hosts.names[0]
    is_first = f"is_host={'true' if hosts.current == first else 'false'}"
    channel_of = dict(channel.rsplit("=", 1) for channel in channels)
    locations = json.loads(told.get("TRAINWAY_LOCATIONS", "{}"))
    return {
        # Shards from S3 go to the disk that is large; that of the home directory is not.
        # https://docs.aws.amazon.com/sagemaker/latest/dg/model-train-storage.html (read 2026-11-21)
        "XDG_CACHE_HOME": tempfile.gettempdir(),
        **told,
        "TRAINWAY_LOCATIONS": json.dumps(
            locations | {location: str(INPUT / "data" / name) for location, name in channel_of.items()}, sort_keys=True
        ),
        "TRAINWAY_RUN": str(run),
        "PET_LOG_DIR": str(run / "logs" / hosts.current),
        "PET_LOCAL_ADDR": hosts.current,
        "PET_RDZV_ENDPOINT": f"{first}:{port}",
        "PET_RDZV_CONF": ",".join(filter(None, (told.get("PET_RDZV_CONF"), is_first))),
        "GLOO_SOCKET_IFNAME": hosts.interface,
        "NCCL_SOCKET_IFNAME": hosts.interface,
    }


def wait_for_first(hosts: Hosts, port: int, seconds: float = SECONDS_UNTIL_HOSTS_ARE_THERE) -> None:
    """Returns when the first host listens, or on that one itself when its name has an address.

    Raises:
        UserError: it is not so after so many seconds.
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
    """The run's directory, or another one where the image's user may not write there."""
    with contextlib.suppress(OSError):
        run.mkdir(parents=True, exist_ok=True)
    if os.access(run, os.W_OK):
        return run
    other = Path(tempfile.mkdtemp(prefix="trainway-run-"))
    print(f"{run} cannot be written to: metrics.jsonl and TensorBoard stay in {other} of this host", file=sys.stderr)
    return other


if __name__ == "__main__":
    main()
