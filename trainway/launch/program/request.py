"""A program before it is rendered for a target: everything that a target needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from trainway.launch.platform.locations import RunPaths, paths_of_run
from trainway.launch.program.allocation import LOCAL_DISK, Allocation, local_disk
from trainway.launch.program.environment import cluster_roots, network_environment, nodes_environment
from trainway.launch.program.program import CODE_FILES, Program
from trainway.launch.registry.state import VARIABLE, state_key_of
from trainway.launch.runs.names import LONGEST_RUN_NAME
from trainway.launch.runs.run_directory import RUNS
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff
from trainway.spec.handoff_names import DEFAULT_IMAGE

_MOMENT = "%m%d-%H%M%S"
# The last part numbers runs of one second.
_LONGEST_NAME = LONGEST_RUN_NAME - len("-1231-235959") - len("-99")


@dataclass(frozen=True)
class OnNodes:
    """What each node of a run gets, and where the run is there."""

    paths: RunPaths
    """Where the run is on its platform."""
    directory: PurePosixPath
    """The run's directory on the nodes: on the file system, or on the disk of each node without one."""
    location: str
    """The prefix of the platform's bucket that has the run's directory, without a slash at its end."""
    state_location: str
    """The file in the platform's bucket to which the run writes its state."""
    local_disk: PurePosixPath | None
    """The directory on the local disk of each node. None if the program uses none, or the nodes have none."""
    files: Mapping[str, str]
    """The files that every node gets, by their names: those of the program, and what fetches the code."""
    job_file: PurePosixPath
    """The path of the job file."""
    code: str | None
    """The code that the target puts before the image's own. A starter of a program fetches the code itself."""
    command: tuple[str, ...]
    """What every node runs."""
    size: Mapping[str, str]
    """What a program with a starter is told of its nodes. The launcher of ranks has its own variables for that."""


@dataclass(frozen=True)
class Request:
    """A program on the nodes of an allocation. `image` is the training image by its digest, and has a name, too.

    `code` is the location of an archive that `trainway sync` uploaded, which comes before the image's own code.
    `network` is the only network that NCCL may use between the nodes, by NCCL's name, or None if it may use any.
    """

    program: Program
    run: str
    hand_off: HandOff
    image: str
    allocation: Allocation
    code: str | None = None
    image_name: str = DEFAULT_IMAGE
    network: str | None = None

    @property
    def job_text(self) -> str:
        """The text of the job file."""
        return self.program.text

    @property
    def kept_files(self) -> Mapping[str, str]:
        """The files that the run's record keeps beside the job file."""
        return self.program.kept_files

    @property
    def directory_here(self) -> Path:
        """The directory on this machine that keeps the run's record."""
        return RUNS / self.run

    @property
    def nodes(self) -> dict[str, Any]:
        """The `count` and the `instance_type` of the run's nodes."""
        return {"count": self.allocation.nodes, "instance_type": self.allocation.group.instance_type}

    @property
    def directory(self) -> PurePosixPath:
        """The run's directory on the nodes: on the file system, or on the disk of each node without one."""
        return PurePosixPath(self.hand_off.mount_path) / self._paths.path

    @property
    def location(self) -> str:
        """The prefix of the platform's bucket that has the run's directory, without a slash at its end."""
        return f"s3://{self.hand_off.bucket}/{self._paths.path}"

    def on_nodes(self, files: PurePosixPath | None = None) -> OnNodes:
        """Return the values that nodes get. `files` is the directory of the program, by default that of the run."""
        program, hand_off, paths = self.program, self.hand_off, self._paths
        directory = PurePosixPath(hand_off.mount_path) / paths.path
        files = files or directory
        has_starter, fetching = program.started_by is not None, CODE_FILES if self.code else ()
        size = {"TRAINWAY_NODES": str(self.allocation.nodes), "TRAINWAY_GPUS_PER_NODE": str(self.allocation.ranks)}
        return OnNodes(
            paths=paths,
            directory=directory,
            location=f"s3://{hand_off.bucket}/{paths.path}",
            state_location=f"s3://{hand_off.bucket}/{state_key_of(paths.team, self.run)}",
            local_disk=local_disk(program, self.allocation, hand_off.orchestrator),
            files={**program.files, **{file.name: file.read_text(encoding="utf-8") for file in fetching}},
            job_file=files / "job.yaml",
            code=None if has_starter else self.code,
            command=program.node_command(files, self.code),
            size=size if has_starter else {},
        )

    def environment(self, on_nodes: OnNodes) -> dict[str, str]:
        """Return the environment of the job on the platform's own nodes, which get `on_nodes`."""
        roots = cluster_roots(self.hand_off)
        return {
            **nodes_environment(self.hand_off, self.allocation, roots, on_nodes.job_file, on_nodes.directory),
            **network_environment(self.network),
            **({LOCAL_DISK: str(on_nodes.local_disk)} if on_nodes.local_disk else {}),
            **self.program.variables(self.run, on_nodes.directory, roots),
            **on_nodes.size,
            VARIABLE: on_nodes.state_location,
        }

    @property
    def _paths(self) -> RunPaths:
        return paths_of_run(self.hand_off, self.program.team, self.run)


@dataclass(frozen=True)
class LocalRequest:
    """A program on this machine, with its run's directory. `hand_off` is None if it uses no platform's storage."""

    program: Program
    directory_here: Path
    hand_off: HandOff | None
    code: str | None = None

    @property
    def job_text(self) -> str:
        """The text of the job file."""
        return self.program.text

    @property
    def kept_files(self) -> Mapping[str, str]:
        """The files that the run's record keeps beside the job file."""
        return self.program.kept_files

    @property
    def run(self) -> str:
        """The name of the run: the path of its directory."""
        return str(self.directory_here)

    @property
    def nodes(self) -> None:
        """None, because the run has no nodes of a platform."""
        return None


def run_name(program: Program, now: datetime | None = None) -> str:
    """Return a name for a new run of a job, with the time in it, which `check_run_name` accepts."""
    return f"{program.name[:_LONGEST_NAME].rstrip('-')}-{now or datetime.now(UTC):{_MOMENT}}"


def check_life_cycle(request: Request, target: str, *, keep: str, restarts: str | None = None) -> None:
    """Raise UsageError if the job file sets `life_cycle.keep_hours`, or `life_cycle.restarts` above 0.

    `keep` and `restarts` say what the target does instead. Without `restarts`, the target has that key.
    """
    life_cycle = request.program.life_cycle
    said = life_cycle.stated
    for key, is_set, why in (
        ("restarts", "restarts" in said and life_cycle.restarts > 0, restarts),
        ("keep_hours", "keep_hours" in said and life_cycle.keep_hours is not None, keep),
    ):
        if is_set and why is not None:
            what = f"{request.program.name} cannot have life_cycle.{key} on {target}"
            raise usage_error(what, why=why, fix=f"leave `life_cycle.{key}` out of the job file")
