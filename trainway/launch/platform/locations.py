"""The locations of a platform: how a job file names them, where a bucket has them, and which a team can use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff
from trainway.spec.sections.storage import MIRRORED_PREFIXES
from trainway.spec.teams.team_directories import team_directory

SCHEMES = ("fsx", "s3")


def scheme_of(location: str) -> str | None:
    """Return `fsx` or `s3` for a location that is relative to the platform, and None for any other."""
    scheme, colon, path = location.partition(":")
    return scheme if colon and scheme in SCHEMES and path.startswith("/") and not path.startswith("//") else None


def all_located(locations: Mapping[str, str], roots: Mapping[str, str]) -> dict[str, str]:
    """Return the paths or URIs of locations, each by its name."""
    return {name: located_at(location, roots) for name, location in locations.items()}


def relative_to_platform(locations: Iterable[str]) -> list[str]:
    """Return the locations that are relative to the platform."""
    return [each for each in locations if scheme_of(each)]


def on_file_system(locations: Iterable[str]) -> tuple[str, ...]:
    """Return the paths on the platform's file system of those locations that are there, such as `/corpus`."""
    return tuple(each.removeprefix("fsx:") for each in locations if scheme_of(each) == "fsx")


def located_at(location: str, roots: Mapping[str, str]) -> str:
    """Return the path or URI of a location. `roots` maps the schemes to what they are there."""
    scheme = scheme_of(location)
    return location if scheme is None else f"{roots[scheme].rstrip('/')}{location.removeprefix(f'{scheme}:')}"


_RUNS = "/runs"
"""The directory of all runs on the file system: `path` of trainway/launch/program/request.py."""


def mirrored_at(hand_off: HandOff, path: str) -> str | None:
    """Return the URI that mirrors a path of the file system, or None if no bucket mirrors it.

    `path` begins with a slash and is relative to the mount, for example `/runs/llama-1123-101500`. Without a file
    system, the nodes of a run upload its directory to the same path of the data bucket.
    """
    if hand_off.file_system is None:
        return f"s3://{hand_off.bucket}{path}"
    for each in hand_off.file_system.associations:
        if f"{path}/".startswith(f"{each.path}/"):
            return each.s3.rstrip("/") + path.removeprefix(each.path)
    return None


def nodes_copy_runs(hand_off: HandOff) -> bool:
    """Return whether the nodes of a run on Kubernetes copy its directory to the bucket, which nothing else does.

    With the directories of teams, for example, the file system has no links to the bucket.
    """
    return hand_off.file_system is None or mirrored_at(hand_off, _RUNS) != f"s3://{hand_off.bucket}{_RUNS}"


def team_of(hand_off: HandOff, named: str | None) -> str | None:
    """Return the team of a job whose file names the team `named`, or none: on a platform with one team, that team."""
    return named or (hand_off.teams[0] if len(hand_off.teams) == 1 else None)


def run_path(hand_off: HandOff, team: str | None, run: str) -> str:
    """Return the path of a run in the bucket and on the file system, for example `runs/research/llama-1123-101500`.

    A run whose own prefix the platform file gives to the team stays where it was before teams had prefixes.
    """
    team = team_of(hand_off, team)
    data = hand_off.team_data.get(team) if team else None
    return f"runs/{run}" if data is None or f"runs/{run}" in data.own else f"runs/{team}/{run}"


@dataclass(frozen=True)
class RunPaths:
    """Where a run is on a platform: its `team`, and its `path` in the bucket and on the file system.

    Its pods mount the `directory` of the file system, or the whole, and need the directories in `opened` writable. With
    `copied_by_nodes`, nothing but its nodes copies its files to the bucket.
    """

    team: str | None
    path: str
    directory: str | None
    opened: tuple[str, ...]
    copied_by_nodes: bool


def paths_of_run(hand_off: HandOff, team: str | None, run: str) -> RunPaths:
    """Return where a run is whose job file names the team `team`, or none."""
    return RunPaths(
        team_of(hand_off, team),
        run_path(hand_off, team, run),
        directory_of_team(hand_off, team),
        opened_directories(hand_off, team, run),
        nodes_copy_runs(hand_off),
    )


def directory_of_team(hand_off: HandOff, team: str | None) -> str | None:
    """Return the directory of the file system that jobs of the team mount, or None if they mount the whole."""
    if hand_off.file_system is None or not hand_off.file_system.team_directories:
        return None
    # Teams and namespaces are in one order, that of the platform file (trainway/manifests/namespace.py).
    of_team = dict(zip(hand_off.teams, hand_off.cluster.namespaces, strict=False))
    team = team_of(hand_off, team)
    return team_directory(of_team[team]) if team in of_team else None


def opened_directories(hand_off: HandOff, team: str | None, run: str | None = None) -> tuple[str, ...]:
    """Return the directories of the file system that must be writable for a run of the team, parents first.

    FSx creates the directories of objects that are uploaded, such as the code of a run, for root alone.
    """
    team = team_of(hand_off, team)
    data = hand_off.team_data.get(team) if team else None
    found = [*(data.own if data else ())]
    if run:
        path = PurePosixPath(run_path(hand_off, team, run))
        found += map(str, (*reversed(path.parents[:-2]), path))
    return tuple(dict.fromkeys(found))


def code_prefix(hand_off: HandOff, team: str | None) -> str:
    """Return the prefix of the bucket for archives of code."""
    return run_path(hand_off, team, "code")


def check_team_data(
    name: str, team: str | None, reads: Iterable[str], writes: Iterable[str], hand_off: HandOff
) -> str | None:
    """Return the team of a job on the platform, or None.

    `name` is that of the job. Raises UsageError for a location of the platform that jobs of the team cannot read, or
    cannot write to. Checks nothing on a platform whose teams share all prefixes, or for a job without a team.
    """
    team = team_of(hand_off, team)
    data = hand_off.team_data.get(team) if team else None
    if data is None:
        return team
    for locations, prefixes, can in ((writes, data.own, "write to"), (reads, (*data.own, *data.shared), "read")):
        for location in locations:
            path = _path_in_bucket(location, hand_off)
            if path is not None and not any(f"{path}/".startswith(f"{prefix}/") for prefix in prefixes):
                below = f"s3:/{path.partition('/')[0]}/{team}"
                raise usage_error(
                    f"{name} cannot {can} {location}",
                    why=f"the team {team} has the prefixes {', '.join(prefixes)} of the bucket",
                    fix=f"name a location below {below}, or add {path} to `data` of the team in the platform file",
                )
    return team


def _path_in_bucket(location: str, hand_off: HandOff) -> str | None:
    """Return the path of a location in the platform's bucket, or None if it is anywhere else."""
    if scheme_of(location) is None:
        bucket = f"s3://{hand_off.bucket}/"
        return location.removeprefix(bucket).strip("/") if location.startswith(bucket) else None
    path = location.partition(":")[2].strip("/")
    # Other directories of the file system are not in the bucket, and neither is the directory of a team.
    has_directories = hand_off.file_system is not None and hand_off.file_system.team_directories
    is_mirrored = path.partition("/")[0] in MIRRORED_PREFIXES and not has_directories
    return path if scheme_of(location) == "s3" or is_mirrored else None
