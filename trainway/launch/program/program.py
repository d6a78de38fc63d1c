"""A program that the launcher starts on the nodes of a run, with everything that a target needs to know about it.

Two examples are Trainway's training job and the probe of `trainway verify`. Targets start all programs in one way.
trainway/launch/job_file/programs.py converts a job file to a Program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from trainway.launch.platform.locations import all_located
from trainway.launch.program.on_checkpoint import OnCheckpoint
from trainway.launch.program.trackers import ProgramTrackers
from trainway.parts.extras import Extra

_NODE = Path(__file__).parents[1] / "node"
STARTER = _NODE / "start_program.py"
METRICS = _NODE / "program_metrics.py"
BARS = _NODE / "progress_bars.py"
READER = _NODE / "aws_on_node.py"
INSTALLER = _NODE / "install_packages.py"
TRACKERS = (_NODE / "program_trackers.py", _NODE / "open_tracker.py")
RUN_FILES = _NODE / "run_files.py"
NODE_RANK = _NODE / "node_rank.py"
LATE_FAILURE = _NODE / "late_failure.py"
PASSED_SIGNALS = _NODE / "passed_signals.py"
SYNCED_CODE = _NODE / "synced_code.py"
# The files that synced_code.py imports, and itself.
CODE_FILES = (SYNCED_CODE, _NODE / "private_code.py", READER, _NODE / "exit_statuses.py")
SAGEMAKER_HOST = _NODE / "sagemaker_host.py"
_OF_HOST_ALONE = (SAGEMAKER_HOST, _NODE / "first_cause.py", _NODE / "first_process.py", _NODE / "job_user.py")
# The files that sagemaker_host.py imports, and itself.
HOST_FILES = (*_OF_HOST_ALONE, RUN_FILES, NODE_RANK, PASSED_SIGNALS, *CODE_FILES)
# Sent only with programs that need them.
_ON_DEMAND = (METRICS, BARS, INSTALLER, *TRACKERS, RUN_FILES, LATE_FAILURE, PASSED_SIGNALS, *_OF_HOST_ALONE)
FROM_SCRATCH = "TRAINWAY_FROM_SCRATCH"
"""The variable that has `Program.from_scratch`. The job reads it in training/hosts/run_record.py."""
LOCK = "packages.txt"
"""The file of a run with the lock of its Python packages."""
EVALUATION_JOB = "on_checkpoint.job.yaml"
"""The file of a run's record with the job that evaluates its checkpoints."""
_PACKAGE = re.compile(r"^[A-Za-z0-9]", re.MULTILINE)


@dataclass(frozen=True)
class RunLifeCycle:
    """How often a run that fails starts again, and how many hours its object stays after the end.

    `restarts` starts the whole run again, and `process_restarts` the processes of its nodes in place. `stated` has the
    names of those that the job file states.
    """

    restarts: int = 0
    process_restarts: int = 0
    keep_hours: int | None = None
    stated: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Stop:
    """How a program is told to stop.

    With `ranks_listen`, each rank takes SIGTERM and SIGUSR1 itself and then saves a checkpoint, whoever else gets the
    signal. `signal` is what the first process of the program gets. `grace_seconds` is the time from the signal to the
    end. None is the longest time that the target allows.
    """

    ranks_listen: bool = False
    signal: str = "SIGTERM"
    grace_seconds: int | None = None


@dataclass(frozen=True)
class LogPatterns:
    """Regular expressions for lines of the log, from the beginning of the line.

    `step` matches the line of a step with a finite loss. `loss` and `step_seconds` capture their number in such a
    line. `end` matches the last line.
    """

    step: str
    loss: str
    step_seconds: str
    end: str


@dataclass(frozen=True)
class RequestedPackages:
    """Python packages that a program needs beside those of its Python: `names`, or the requirements file `file`.

    The lock stands in `directory`, and its name begins with `job`.
    """

    job: str
    directory: Path
    names: tuple[str, ...] = ()
    file: Path | None = None


@dataclass(frozen=True)
class LockedPackages:
    """The packages of a program with what they require, by version and checksum, as pip reads them.

    `is_for_image`: they were chosen beside the packages of the training image, and fit no other Python.
    """

    text: str
    is_for_image: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the Python of the program has all packages already."""
        return _PACKAGE.search(self.text) is None


def _starter_files() -> list[Path]:
    """Return the files of the starter, which start_program.py imports on the node, in the order of their names."""
    return sorted(file for file in _NODE.glob("[!_]*.py") if file not in _ON_DEMAND)


def launcher_files() -> list[Path]:
    """Return the files that the launcher can send with a program, whatever the program is."""
    return sorted(_NODE.glob("[!_]*.py"))


def without_launcher_files(
    document: str, blocks_of: Callable[[Mapping[str, str]], Mapping[str, str]], indent: str = ""
) -> str:
    """Return a rendered document with one line in the place of the files that the launcher sends with any program.

    `blocks_of` returns the lines of the files in the document, for their texts by their names. The line is a comment
    with the numbers of files and of lines, after `indent`. A document without such files is returned as it is.
    """
    texts = {file.name: file.read_text(encoding="utf-8") for file in launcher_files()}
    found = {block: texts[name] for name, block in blocks_of(texts).items() if block in document}
    if not found:
        return document
    first, *others = sorted(found, key=document.index)
    for block in others:
        document = document.replace(block, "", 1)
    lines = sum(len(text.splitlines()) for text in found.values())
    files = f"{len(found)} file{'' if len(found) == 1 else 's'}"
    said = f"# Left out: {files} of Trainway with {lines:,} lines, which every node gets. --full prints them."
    return document.replace(first, f"{indent}{said}\n", 1)


@dataclass(frozen=True)
class DeviceMemory:
    """The GiB that a rank of a program needs on its device, and a key of the job file with which it needs less."""

    needed_gib: float
    less: tuple[str, float] | None = None
    """The key with its value, and the GiB that the rank then needs."""
    kinds: tuple[tuple[str, float], ...] = ()
    """What the GiB are for, the largest first."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program, as its job file describes it."""

    name: str
    """The name of the job."""
    text: str
    """The text of the job file, which every node gets as `job.yaml`."""
    nodes: int
    team: str | None = None
    life_cycle: RunLifeCycle = RunLifeCycle()
    command: tuple[str, ...]
    """What every node runs."""
    rank_words: tuple[str, ...] | None = None
    """What another launcher of ranks than that of `command` starts them with. None: the words of `command` behind its
    launcher."""
    is_script: bool = False
    """Whether the command is a bash script, which is one word of the command."""
    started_by: tuple[str, ...] | None = None
    """Options of start_program.py, which starts the command on each node. None starts the command itself."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables beside those of every run."""
    allowed_variables: tuple[str, ...] = ()
    """Variables that the job file sets on purpose, although they take something of the platform away."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Environment variables, and the secrets of AWS Secrets Manager whose values they get on each node."""
    trackers: ProgramTrackers = field(default_factory=ProgramTrackers)
    """The trackers of the job. Trainway's own job sends its metrics there. Another program gets their variables."""
    located: Mapping[str, str] = field(default_factory=dict)
    """Environment variables whose values are locations. Each target replaces them by paths or URIs."""
    outputs: str | None = None
    """Location below which each run has a directory for its outputs. None is the directory of the run."""
    image: str | None = None
    """Image to run in: the name of one of the platform's, or one by its digest. None is that of the node group."""
    code: str | None = None
    """Directory of this machine with the code in which the command starts."""
    code_limit: int = 200
    """The MiB of code that a launch uploads at most."""
    packages: RequestedPackages | None = None
    """Python packages beside those of the Python that runs the program."""
    lock: LockedPackages | None = None
    """What the launch has chosen for `packages`. None before that."""
    extras: tuple[Extra, ...] = ()
    """Extras of Trainway that the program requires on this machine."""
    inputs: tuple[str, ...] = ()
    """Locations that the program reads from its start to its end."""
    locations: tuple[str, ...] = ()
    """All locations that the program reads or writes, the inputs among them."""
    written: tuple[str, ...] = ()
    """The locations that the program writes to."""
    default_checkpoints: str | None = None
    """The location of the checkpoints if the job file names none, so that the launch can choose another. Else None."""
    check_ranks: Callable[[int], object] = int
    """Raise ValueError, with the reason, if the program cannot run on so many ranks. By default, it can run on any."""
    local_disk: bool = False
    """Whether the program keeps checkpoints on the local disks of the nodes."""
    device_memory: Callable[[int], DeviceMemory] | None = None
    """Return what a rank of so many needs on its device, or None if it is unknown."""
    vendors: tuple[str, ...] | None = None
    """Vendors of the accelerators that the program can use, as the catalogue names them. None is any."""
    rank_keys: str = "`nodes`"
    """The keys of the job file that decide on how many ranks the program can run."""
    elastic: bool = False
    """Whether a program with a starter continues with another number of ranks."""
    stop: Stop = Stop()
    fatal_statuses: tuple[int, ...] = ()
    """Exit statuses of a node after which to start the run again cannot help."""
    counts_restarts: bool = False
    """Whether the program counts its restarts itself, and gives up (training/hosts/restarts.py)."""
    metrics: tuple[tuple[str, str], ...] = ()
    """Names of metrics, and the regular expressions that capture their values in a line of the log."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of targets that the job file sets, by the names of the target and of the flag."""
    from_scratch: str | None = None
    """A name for a launch that may begin anew although what the run had is gone. None: such a launch is refused."""
    on_checkpoint: OnCheckpoint | None = None
    """The job that evaluates the checkpoints, or None."""
    log_patterns: LogPatterns | None = None
    """Lines by which an operator sees that the program makes progress. None if the program prints no such lines."""

    @property
    def reads_metric_files(self) -> bool:
        """Whether the starter reads numbers in files that the program writes."""
        return self._metric_files is not None

    @property
    def _metric_files(self) -> str | None:
        found = (word for word in self.started_by or () if word.startswith("--metric-files="))
        return next((word.partition("=")[2] for word in found), None)

    def _event_files(self, outputs: str) -> Mapping[str, str]:
        """The variable by which Transformers writes TensorBoard's files where the starter reads them.

        https://huggingface.co/docs/transformers/main_classes/callback (read 2026-12-01)
        """
        folder = self._metric_files
        if folder is None or folder.endswith(".jsonl") or "*" in folder:
            return {}
        return {"TENSORBOARD_LOGGING_DIR": f"{outputs}/{folder or 'tensorboard'}"}

    @property
    def files(self) -> Mapping[str, str]:
        """The files that go with the program to every node, by their names."""
        starter = () if self.started_by is None else _starter_files()
        metrics = (METRICS,) if self.reads_metric_files else (BARS,) if self._reads_bars else ()
        trackers = TRACKERS if self._has_trackers else ()
        sent = (*starter, *metrics, *((INSTALLER,) if self._installs else ()), *trackers)
        return {
            "job.yaml": self.text,
            **{file.name: file.read_text(encoding="utf-8") for file in sent},
            **self._lock_file,
        }

    @property
    def _has_trackers(self) -> bool:
        return any(word.startswith("--tracker=") for word in self.started_by or ())

    @property
    def _reads_bars(self) -> bool:
        return self.started_by is not None and not self.metrics

    @property
    def kept_files(self) -> Mapping[str, str]:
        """The files, beside the job file, without which the program cannot be resumed."""
        evaluation = {} if self.on_checkpoint is None else {EVALUATION_JOB: self.on_checkpoint.text}
        return {**self._lock_file, **evaluation}

    @property
    def _lock_file(self) -> Mapping[str, str]:
        return {} if self.lock is None else {LOCK: self.lock.text}

    @property
    def _installs(self) -> bool:
        if self.packages is not None and self.lock is None:
            raise ValueError(f"the packages of {self.name} are not locked: trainway/launch/starting/job_packages.py")
        return self.lock is not None and not self.lock.is_empty

    @property
    def permission_to_begin_anew(self) -> Mapping[str, str]:
        """The environment variable by which a launch may begin anew, or nothing."""
        return {} if self.from_scratch is None else {FROM_SCRATCH: self.from_scratch}

    def node_command(self, files: PurePath, code: str | None, lock: PurePath | None = None) -> tuple[str, ...]:
        """Return what a node runs that has the files in the directory `files`.

        `code` is the directory or the archive of the code. A command without starter does not start in it. `lock` is
        the path of the lock of the packages if it is not among the files.
        """
        if self.started_by is None:
            return self.command
        packages = (f"--packages={lock or files / LOCK}",) if self._installs else ()
        where = () if code is None else (f"--code={code}",)
        return ("python3", str(files / STARTER.name), *self.started_by, *packages, *where, "--", *self.command)

    def variables(self, run: str, directory: PurePath, roots: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables of the program in a run with this name and directory.

        `roots` maps the schemes of locations to what they are on the nodes.
        """
        if self.started_by is None:
            named = {"TRAINWAY_RUN_NAME": run} if self.trackers.packages else {}
            return {**self.environment, **named, **self.permission_to_begin_anew}
        # A file system that all nodes have: its root is a path, and that of a bucket is a URI.
        file_system = roots.get("fsx", "")
        shared = {"TRAINWAY_PACKAGES": f"{file_system}/packages"} if self._installs and file_system[:1] == "/" else {}
        outputs = directory / "outputs" if self.outputs is None else f"{self.outputs}/{run}"
        located = all_located({**self.located, "TRAINWAY_OUTPUT": str(outputs)}, roots)
        return {
            **self.trackers.variables(run),
            **self._event_files(located["TRAINWAY_OUTPUT"]),
            **self.environment,
            **located,
            **shared,
            **self.permission_to_begin_anew,
            "TRAINWAY_RUN_NAME": run,
            "TRAINWAY_OUTPUT": located["TRAINWAY_OUTPUT"],
        }
