"""Finding a run by its name: launched from this directory, or from anywhere else on a platform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainway.launch.platform.hand_off import DeployedPlatform, read_hand_off
from trainway.launch.registry.connections import ConnectedPlatform, connections, registry_of
from trainway.launch.registry.record import RunRecord
from trainway.launch.registry.store import Registry
from trainway.launch.runs.names import is_run_name
from trainway.launch.runs.run_directory import RUNS, make_run_directory, read_launch, run_named, write_launch
from trainway.launch.target.known import target_named
from trainway.launch.target.protocol import Handle
from trainway.spec.errors import UsageError, usage_error

PLATFORM_FILE = Path("platform.yaml")


def find_run(name: str) -> Path:
    """Return the directory of a run on this machine, by its name or its path.

    A run that was launched elsewhere is looked for on the platform of platform.yaml, and on those of
    `trainway connect`. Its record is then written to the directory, as if it had been launched from here. That of a run
    which is here already is brought up to date, if its platform answers.

    Raises UsageError if there is no such run, or nobody may read its record.
    """
    try:
        run = run_named(name)
    except UsageError as absent:
        return _found_elsewhere(name, absent)
    _refresh(run)
    return run


def reachable_registries() -> Iterator[Registry]:
    """Yield the registries of the platform of platform.yaml, and of those of `trainway connect`.

    Raises UsageError if a platform cannot be asked.
    """
    for each in known_platforms():
        yield registry_of(read_hand_off(each))


def known_platforms() -> list[ConnectedPlatform]:
    """Return the platform of platform.yaml, and those of `trainway connect`."""
    here = connected_by(PLATFORM_FILE) if PLATFORM_FILE.is_file() else None
    return list(dict.fromkeys((*([here] if here else ()), *connections())))


def connected_by(file: Path) -> ConnectedPlatform | None:
    """Return the platform that a platform file describes, or None without a Region. Other keys do not matter here."""
    from trainway.spec.document import read_document

    stated = read_document(file).data
    return ConnectedPlatform(str(stated.get("name", "trainway")), str(stated["region"])) if "region" in stated else None


def kept_here(record: RunRecord, registry: Registry) -> Path:
    """Write the record of a run to its directory on this machine, and return the directory."""
    run = RUNS / record.run
    files = dict(record.files)
    make_run_directory(files.pop("job.yaml"), run, files)
    write_launch(run, launch_of(record, registry))
    return run


def launch_of(record: RunRecord, registry: Registry, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the content of launch.json of a recorded run, which says where the record is.

    Whoever writes a record can name any cluster in it. The handle has the cluster of the platform instead, or that of
    `known`, the launch.json that this machine has of the run.

    Raises UsageError if the hand-off of the platform is needed and cannot be read.
    """
    where = {"platform": registry.platform, "region": registry.region, "bucket": registry.bucket}
    told = {"team": record.team, "owner": record.owner, "attempts": record.attempts}
    launch = {**(record.launch or {}), "registry": {**where, **told}}
    if record.launch:
        launch["handle"] = {**launch["handle"], **_decided(launch["target"], record.team, registry, known)}
    return launch


def _decided(name: str, team: str | None, registry: Registry, known: Mapping[str, Any] | None) -> Handle:
    """Return the values of the handle of a run that its platform decides."""
    try:
        target = target_named(name)
    except UsageError:
        return {}  # no command asks an unknown target
    if known and known.get("target") == name:
        return {key: known["handle"][key] for key in target.decided}
    if (name, team) not in registry.on_platform:
        hand_off = registry.hand_off or read_hand_off(ConnectedPlatform(registry.platform, registry.region))
        registry.on_platform[name, team] = target.on_platform(hand_off, team)
    return registry.on_platform[name, team]


def written_state(launch: dict[str, Any], run: str) -> dict[str, Any] | None:
    """Return what a run has written about itself where its platform is, by its launch.json, with `seconds_left`.

    None for a run without a platform, and for one that has written nothing.
    """
    registry = registry_in(launch)
    state = registry.state(launch["registry"]["team"], run) if registry else None
    return {**asdict(state), "seconds_left": state.seconds_left} if state else None


def platform_of(launch: Mapping[str, Any]) -> DeployedPlatform:
    """Return the platform of a run by its launch.json. A run without a record names the platform file.

    Raises SpecError with every problem of that file.
    """
    from trainway.spec.loader import load_platform

    where = launch.get("registry")
    if where is None:
        return load_platform(Path(launch["options"]["platform_file"]))
    return ConnectedPlatform(where["platform"], where["region"])


def registry_in(launch: dict[str, Any]) -> Registry | None:
    """Return the registry that has the record of a run, by its launch.json; None for a run of this machine alone."""
    where = launch.get("registry")
    if where is None:
        return None
    return Registry(where["platform"], where["region"], where["bucket"], (where["team"],) if where["team"] else ())


def _found_elsewhere(name: str, absent: UsageError) -> Path:
    if not is_run_name(name) or not (platforms := known_platforms()):
        raise absent
    looked = list[str]()
    for each in platforms:
        where = f"{each.name} in {each.region}"
        try:
            registry = registry_of(read_hand_off(each))
            record = registry.read(name)
        except UsageError as error:
            looked.append(f"{where} cannot be asked ({' '.join(str(error).split())})")
            continue
        if record and record.launch:
            return kept_here(record, registry)
        looked.append(f"{where} has no record of it that you may read")
    raise usage_error(
        f"there is no run {name}",
        why=f"neither {RUNS / name} nor {name} is the directory of one, and {'; '.join(looked)}",
        fix="`trainway status --all` lists the runs of your teams; `trainway connect` adds a platform",
    )


def _refresh(run: Path) -> None:
    """Bring the record of a run up to date, which somebody may have resumed or stopped elsewhere."""
    launch = read_launch(run)
    registry = registry_in(launch)
    if registry is None:
        return
    try:
        record = registry.read(run.name)
        newer = launch_of(record, registry, launch) if record and record.launch else launch
    except UsageError:
        return  # what is here still tells how to ask the run's target
    if newer != launch:
        write_launch(run, newer)
