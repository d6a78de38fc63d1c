"""Start, find, and stop the emulator's server process.

The state is a file under the current directory, so two checkouts have two emulators.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Protocol, TypedDict

from trainway.parts.endings import ending_later
from trainway.spec.errors import UsageError

DIRECTORY = Path(".trainway")
START_SECONDS = 60.0
STOP_SECONDS = 10.0


class EmulatorError(UsageError):
    """The emulator could not be started, found, or stopped. The message says why, and how to fix it."""


class ServerProcess(Protocol):
    """A server process, with what this module uses of `subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """Return the process ID."""

    def poll(self) -> int | None:
        """Return the exit status, or None while the server runs."""

    def kill(self) -> None:
        """Send SIGKILL to the server."""


class ClockAnswer(TypedDict):
    """Result of `Emulator.set_clock`: events with their times, and desired and running nodes by group."""

    happened: list[str]
    nodes: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Emulator:
    """A running emulator.

    `started` is in seconds since the epoch. `directory` holds its log and the CDK CLI's cache.
    """

    endpoint: str
    pid: int
    region: str
    directory: str
    started: float

    def environment(self) -> dict[str, str]:
        """Return the variables that make a child process use the emulator, and nothing else of AWS.

        The credentials are made up, the user's own ~/.aws is not read, and the CDK CLI gets a cache of its own, because
        it remembers which account a key belongs to. jsii's cache of the CDK library stays in place. Without it a
        synthesis takes 11 s.
        """
        private = Path(self.directory)
        return {
            "AWS_ACCESS_KEY_ID": "emulator",
            "AWS_SECRET_ACCESS_KEY": "emulator",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_CONFIG_FILE": str(private / "aws-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(private / "aws-credentials"),
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DEFAULT_ACCOUNT": "123456789012",
            "CDK_DEFAULT_REGION": self.region,
            "CDK_DISABLE_CLI_TELEMETRY": "1",
            "CDK_HOME": str(private / "cdk"),
        }

    def child_environment(self) -> dict[str, str]:
        """Return this process's environment, with `environment` instead of the user's own AWS settings."""
        return _without_aws() | self.environment()

    def resources(self) -> list[dict[str, str]]:
        """Return every resource that CloudFormation created: stack, logical_id, type, physical_id, status, depth."""
        resources: list[dict[str, str]] = _get(f"{self.endpoint}/_trainway/resources")
        return resources

    def set_clock(self, now: datetime, *, blocks: Sequence[dict[str, str]] = ()) -> ClockAnswer:
        """Set the time, with its zone, at which schedules call their targets and Capacity Blocks start and end.

        `blocks` are Capacity Blocks that the account has from now on, each with `id`, `start`, and `end`. Returns the
        events since the previous time, and the nodes of each managed node group.
        """
        answer: ClockAnswer = self._put("clock", {"now": now.isoformat(), "blocks": list(blocks)})
        return answer

    def set_builds(self, outcomes: dict[str, list[dict[str, Any]]]) -> None:
        """Set how the next attempts of pipelines' actions end, by `PIPELINE/ACTION`. Without an outcome they succeed.

        An outcome is `{}` for success, `{"error": {"code": …, "message": …}}` for an action that starts no build,
        `{"phase": …, "code": …, "message": …}` for a build that fails in a phase, or `{"command": […], "environment":
        {…}}` for a build that ends as the command does.
        """
        self._put("builds", outcomes)

    def send_event(self, event: dict[str, Any]) -> None:
        """Send an event of a service, as EventBridge delivers it. Rules start their runbooks before this returns."""
        self._put("events", event)

    def judge_alarms(
        self,
        now: datetime,
        points: Sequence[dict[str, Any]] = (),
        *,
        quotas: Mapping[str, float] | None = None,
        logs: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        """Judge all alarms of CloudWatch at a time, and return their states by name.

        `points` are those that services sent, as the fields of `emulator.services.alarm_states.Datapoint`. `quotas` has
        service quotas by the class of their metric, and `logs` the log groups that stand in for others. An alarm that
        has just gone off sends a message to its topics before this returns.
        """
        asked = {"now": now.timestamp(), "points": list(points), "quotas": quotas or {}, "logs": logs or {}}
        states: dict[str, str] = self._put("alarms", asked)
        return states

    def publish(
        self,
        *,
        cluster_versions: Sequence[dict[str, Any]] = (),
        addons: Sequence[dict[str, Any]] = (),
        parameters: dict[str, str] | None = None,
        region: str | None = None,
    ) -> None:
        """Set what AWS publishes: results of DescribeClusterVersions and DescribeAddonVersions, and parameters.

        Times are in seconds since the epoch. The Region is by default the emulator's own. `EVERYWHERE` stands for all
        Regions that have nothing of their own.
        """
        what = {"cluster_versions": list(cluster_versions), "addons": list(addons), "parameters": parameters or {}}
        self._put("published", what, region)

    def sell(self, goods: Mapping[str, list[dict[str, Any]]], region: str | None = None) -> None:
        """Set what AWS sells in a Region, by default the emulator's own, by the kinds of `emulator.market.Market`."""
        self._put("market", goods, region)

    def bought(self) -> list[dict[str, Any]]:
        """Return what was bought, oldest first: the operation and its parameters."""
        found: list[dict[str, Any]] = _get(f"{self.endpoint}/_trainway/bought")
        return found

    def hold(self, **what: Any) -> None:
        """Set what the account has that moto lacks, and what it may not ask: the parts of `emulator.holdings`.

        Items have the form of AWS's API, with times as ISO 8601 texts. Raises EmulatorError for another form.
        """
        try:
            self._put("holdings", what)
        except urllib.error.HTTPError as error:
            raise EmulatorError(error.read().decode()) from None

    def _put(self, what: str, document: Any, region: str | None = None) -> Any:
        url, body = f"{self.endpoint}/_trainway/{what}/{region or self.region}", json.dumps(document).encode()
        with urllib.request.urlopen(urllib.request.Request(url, data=body, method="PUT"), timeout=30) as response:
            return json.load(response)


@dataclass(frozen=True)
class EmulatorStatus:
    """Output of `trainway emulator status`. `age` is in seconds."""

    endpoint: str
    pid: int
    age: float
    resources: int


def start(port: int = 0, region: str = "us-west-2") -> Emulator:
    """Start the emulator in the background, and return when it answers. Raises EmulatorError."""
    running_one = _load()
    if running_one and _answers(running_one):
        raise EmulatorError(
            f"An emulator runs already at {running_one.endpoint} (pid {running_one.pid}). Stop it first."
        )
    emulator = _launch(port, region, DIRECTORY.resolve())
    _state().write_text(json.dumps(asdict(emulator)), encoding="utf-8")
    return emulator


def stop() -> Emulator | None:
    """Stop the emulator that `start` started here. Return it, or None without one.

    Raises EmulatorError if it does not stop.
    """
    emulator = _load()
    if emulator is None:
        return None
    # Another process may have the process ID by now. Only a server that reports this ID is ours.
    if _answers(emulator):
        _end(emulator.pid)
    _state().unlink()
    return emulator


def status() -> EmulatorStatus | None:
    """Return the status of the emulator that `start` started here, or None if it does not answer."""
    emulator = _load()
    if emulator is None or not _answers(emulator):
        return None
    age = time.time() - emulator.started
    return EmulatorStatus(emulator.endpoint, emulator.pid, age, len(emulator.resources()))


def current() -> Emulator | None:
    """Return the emulator that `start` started here, or None if it does not answer."""
    emulator = _load()
    return emulator if emulator and _answers(emulator) else None


@contextmanager
def running(port: int = 0, region: str = "us-west-2", directory: Path | None = None) -> Iterator[Emulator]:
    """Run an emulator for the length of a block, independent of `start` and `stop`. Raises EmulatorError."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="trainway-emulator-") as temporary:
        emulator = _launch(port, region, directory or Path(temporary))
        try:
            yield emulator
        finally:
            _end(emulator.pid)


def _launch(port: int, region: str, directory: Path) -> Emulator:
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "emulator.log"
    environment = _without_aws() | {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    # Hypothesis, which generates attributes, would otherwise write its character tables to the current directory.
    environment["HYPOTHESIS_STORAGE_DIRECTORY"] = str(directory / "hypothesis")
    # Start the server from the folder that this package was imported from.
    found = [str(Path(__file__).parents[1]), environment.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, found))
    process = None
    try:
        with log.open("wb") as output, ending_later():
            process = start_server(["--port", str(port)], environment, output)
        return _answering(process, region, directory, log)
    except BaseException:
        if process is not None:
            process.kill()
        raise


def _answering(process: ServerProcess, region: str, directory: Path, log: Path) -> Emulator:
    """Wait until a server answers. Raises EmulatorError if it ends before, or does not answer in time."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        first = log.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
        if first.startswith("http://"):
            emulator = Emulator(first, process.pid, region, str(directory), time.time())
            if _answers(emulator):
                return emulator
        time.sleep(0.05)
    ended = process.poll()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
    what = f"ended with exit status {ended}" if ended is not None else f"did not answer within {START_SECONDS:.0f} s"
    raise EmulatorError("\n".join([f"The emulator {what}. The end of {log}:", *lines]))


def start_server(arguments: Sequence[str], environment: dict[str, str], output: IO[bytes]) -> ServerProcess:
    """Start `emulator.server` in a session of its own, with its output in a file."""
    command = [sys.executable, "-m", "emulator.server", *arguments]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment,
        start_new_session=True,
    )  # fmt: skip


def _without_aws() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        if not _alive(pid):
            return
        time.sleep(0.02)
    raise EmulatorError(f"The emulator (pid {pid}) did not end within {STOP_SECONDS:.0f} s; end it with: kill -9 {pid}")


def _alive(pid: int) -> bool:
    try:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    except ChildProcessError:
        pass  # started by an earlier command, so not our child: only the kernel knows
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _answers(emulator: Emulator) -> bool:
    try:
        health = _get(f"{emulator.endpoint}/_trainway/health")
    except (urllib.error.URLError, OSError, ValueError):
        return False
    return bool(health["pid"] == emulator.pid)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as response:
        return json.load(response)


def _state() -> Path:
    return DIRECTORY / "emulator.json"


def _load() -> Emulator | None:
    try:
        return Emulator(**json.loads(_state().read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise EmulatorError(f"{_state()} is not a state file of the emulator: {error}. Delete it.") from error
