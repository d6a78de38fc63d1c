"""Convert times of a platform file to FSx's format. Both are in UTC."""

from __future__ import annotations

from trainway.spec.sections.storage import Backups

# FSx counts days from Monday: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html
# (read 2026-11-21)
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def maintenance_window(time: str | None) -> str | None:
    """Format a weekly time as FSx expects it, for example `sun 03:00` as `7:03:00`."""
    if time is None:
        return None
    day, clock = time.split()
    return f"{DAYS.index(day) + 1}:{clock}"


def backup_hour(backups: Backups | None) -> str | None:
    """Format an hour (0 to 23) as FSx expects it, for example 5 as `05:00`."""
    return f"{backups.hour:02}:00" if backups else None
