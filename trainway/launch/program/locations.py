"""Whether a platform has what a program names, and what its locations mean on a machine without the file system."""

from __future__ import annotations

from trainway.launch.platform.locations import SCHEMES, check_team_data, on_file_system, relative_to_platform
from trainway.launch.program.program import Program
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff


def needs_hand_off(program: Program) -> bool:
    """Return whether a location of the program is on a platform's file system or in its bucket."""
    return bool(relative_to_platform(program.locations))


def check_names(program: Program, hand_off: HandOff) -> str | None:
    """Return the team of a job on the platform, or None.

    Raises UsageError for a team that the platform does not have, and for a location that the job cannot use.
    """
    check_team(program, hand_off)
    check_locations(program, hand_off)
    return check_team_data(program.name, program.team, program.locations, program.written, hand_off)


def check_team(program: Program, hand_off: HandOff) -> None:
    """Raise UsageError if the platform does not have the job's team."""
    if program.team is not None and program.team not in hand_off.teams:
        raise usage_error(
            f"{program.name} cannot run for the team {program.team}",
            why=f"the platform {hand_off.platform} has no such team",
            fix=f"use one of {', '.join(hand_off.teams)}" if hand_off.teams else "leave `team` out of the job file",
        )


def check_locations(program: Program, hand_off: HandOff) -> None:
    """Raise UsageError for a location on the file system of a platform that has none."""
    if hand_off.file_system is not None:
        return
    marker = () if program.on_checkpoint is None else (program.on_checkpoint.marker,)
    for path in on_file_system((*program.locations, *program.written, *marker)):
        raise usage_error(
            f"{program.name} cannot be launched with fsx:{path}",
            why=f"{hand_off.platform} has no file system: `storage.lustre` of its platform file is null",
            fix=f"write s3:{path}",
        )


def local_roots(program: Program, hand_off: HandOff, machine: str = "this machine") -> dict[str, str]:
    """Return the root of each scheme for a program on a machine that reaches the bucket and not the file system.

    A directory of the file system that mirrors a prefix of the bucket is read and written there. Raises UsageError
    for one that does not.
    """
    root = f"s3://{hand_off.bucket}"
    linked = hand_off.file_system.associations if hand_off.file_system else ()
    mirrored = [each.path for each in linked if each.s3 == f"{root}{each.path}"]
    for path in on_file_system(program.locations):
        if not any(path == m or path.startswith(f"{m}/") for m in mirrored):
            raise usage_error(
                f"fsx:{path} cannot be reached from {machine}",
                why="there is no Lustre file system here, and that directory of it does not mirror the data bucket",
                fix=f"use a directory below {', '.join(f'fsx:{path}' for path in mirrored)}, or an s3:// location"
                if mirrored
                else f"write s3:{path}",
            )
    return dict.fromkeys(SCHEMES, root)
