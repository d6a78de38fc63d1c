"""What a target is: a system that runs jobs, as one value with a function for each thing that is done there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from trainway.explain.evidence import Evidence
from trainway.launch.target.cluster_state import ClusterState
from trainway.launch.target.phase import OVER as OVER
from trainway.launch.target.phase import Phase as Phase
from trainway.launch.target.wanted_lines import EVERY_LINE, WantedLines
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.shown import shown

Handle = Mapping[str, str]
"""How a target finds a run again; kept in the run's launch.json on the machine that submitted it."""


@dataclass(frozen=True)
class State:
    """The phase of a run, why it is in that phase in the target's own words, and the names of its nodes."""

    phase: Phase
    reason: str = ""
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Replace characters that a terminal does not show. A job can have written the reason."""
        object.__setattr__(self, "reason", shown(self.reason))
        object.__setattr__(self, "nodes", tuple(map(shown, self.nodes)))


@dataclass(frozen=True)
class KnownNodes:
    """What a target knows about a run's nodes beside what the run's processes say.

    `names` are the names of nodes by the hostnames that processes on them have. `allocatable` is, by node of the run's
    node group, the number of devices that pods can request.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class Prepared(Protocol):
    """A job that can be submitted, as `Target.prepare` returns it."""

    @property
    def run(self) -> str:
        """The name of the run that is prepared."""

    @property
    def job_text(self) -> str:
        """The text of the job file."""

    @property
    def kept_files(self) -> Mapping[str, str]:
        """The files that the run's record keeps beside the job file, by their names."""

    @property
    def directory_here(self) -> Path:
        """The directory on this machine that keeps the run's record."""

    @property
    def nodes(self) -> Mapping[str, Any] | None:
        """The `count` and the `instance_type` of the run's nodes. None on this machine."""


class Logs(Protocol):
    """A function that reads the logs of a run."""

    def __call__(self, handle: Handle, *, follow: bool, wanted: WantedLines = EVERY_LINE) -> Iterator[str]:
        """Return the wanted lines. Each begins with `[node rank]`. With `follow`, new lines follow until the run ends.

        Raises UsageError for a choice of lines that the target cannot make.
        """


Request = TypeVar("Request", bound=Prepared)
Options = TypeVar("Options")


def _nothing_known(request: Any, handle: Handle) -> KnownNodes:
    del request, handle
    return KnownNodes()


def _nothing_decided(hand_off: HandOff, team: str | None) -> Handle:
    del hand_off, team
    return {}


def _as_it_is(document: str) -> str:
    return document


def _anybody(handle: Handle) -> None:
    del handle


@dataclass(frozen=True, kw_only=True)
class Target(Generic[Request, Options]):
    """A system that runs jobs. Each function raises UsageError if it cannot do what it was asked."""

    name: str
    """The value of `--target`."""
    heading: str
    """The heading of the target's flags in `trainway launch --help`, for example `Under Slurm`."""
    options: type[Options]
    """A frozen dataclass whose fields describe the flags: trainway/launch/target/options.py."""
    orchestrators: tuple[Orchestrator, ...] = ()
    """Orchestrators of the platforms whose jobs the target takes. Empty for a target that needs no platform."""
    handle: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions for the values of a handle, by key. A group `run` matches the name of the run. Other people
    and jobs can write the record of a run. The launcher refuses a record whose handle has other keys or values.
    Required if `orchestrators` is not empty."""
    on_platform: Callable[[HandOff, str | None], Handle] = _nothing_decided
    """Return the values of a handle that the platform decides for the runs of a team, or of no team, by key. The
    launcher uses them in the place of those in a record."""
    decided: tuple[str, ...] = ()
    """The keys of a handle for which `on_platform` can have a value."""
    prepare: Callable[[Any], Sequence[Request]]
    """Check the jobs of a Launch: `requests_on_platform`, `requests_beside_platform`, or `requests_here` of
    trainway/launch/starting/prepare.py."""
    render: Callable[[Request, Catalogue, Options], str]
    """Return exactly what is submitted, as `--dry-run --full` prints it. Refuse what cannot be submitted."""
    check: Callable[[Request, Catalogue, Options], object] | None = None
    """Refuse what cannot be submitted, as `render` does. A launch checks all jobs before it submits the first one.
    Without the function, it renders them."""
    shown: Callable[[str], str] = _as_it_is
    """Return what `--dry-run` prints of a rendered document without `--full`: the document without the launcher's own
    files. By default, all of it."""
    submit: Callable[[Request, Catalogue, Options], Handle]
    """Submit a run and return its handle. A run of the same name that has ended is resumed."""
    find: Callable[[Request, Options], Handle | None] | None = None
    """Return the handle of the job with the name of a run, or None if there is no such job. The launcher calls it for a
    run whose launch was killed while it submitted the job. Without the function, it submits the job again."""
    attend: Callable[[Request, Options], int] | None = None
    """Run a submitted run to its end, and return its exit status. None if runs outlive the launcher."""
    state: Callable[[Handle], State]
    """Return the state of a run."""
    logs: Logs
    """Return the lines of a run's logs."""
    stop: Callable[[Handle], None]
    """Tell a run to save a checkpoint and end. Return when the run was told."""
    shell: Callable[[Handle, int], Sequence[str]]
    """Return the command that opens a shell on a node of a run, by the node's index."""
    on_nodes_of_platform: bool = True
    """Whether runs are on nodes of the platform's groups, and cost what these cost."""
    interactive: bool = False
    """Whether `--interactive` can allocate nodes for a shell."""
    check_shell: Callable[[Handle], None] = _anybody
    """Raise UsageError if whoever asks may not open a shell on the nodes of a run, whether it has nodes yet or not."""
    forward: Callable[[Handle, int, int, int], Sequence[str] | None] | None = None
    """Return the command that forwards a port of this machine to one of a node of a run: node, port, and local port.
    None instead of a command: the port is one of this machine. Without the function, the target forwards no ports."""
    evidence: Callable[[Handle], Evidence]
    """Return what the target knows about why a run ended. Leave out what cannot be read."""
    known_nodes: Callable[[Request, Handle], KnownNodes] = _nothing_known
    """Return what the target knows about the nodes of a run, for `trainway verify`."""
    cluster_state: Callable[[HandOff, str | None], ClusterState] | None = None
    """Return the nodes and jobs of a platform's cluster, for `trainway top`. The second argument is the caller's login
    name on the cluster. None for a target without a cluster of its own."""
