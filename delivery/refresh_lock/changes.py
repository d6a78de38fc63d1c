"""What one entry of the lock becomes, and what the command says about it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from delivery.refresh_lock.published import Unread

Locked = dict[str, Any]


@dataclass(frozen=True)
class LockSection:
    """A section of the lock, with the keys of its entries."""

    section: str
    word: str
    name: str
    version: str
    pin: str
    prefix: str


SECTIONS = (
    LockSection("images", "image", name="name", version="tag", pin="digest", prefix=""),
    LockSection("charts", "chart", name="chart", version="version", pin="sha256", prefix="sha256:"),
)


@dataclass(frozen=True)
class Refreshed:
    """The entry of the lock, None if the lock has none, a line about it, and whether somebody has to act."""

    locked: Locked | None
    line: str = ""
    wrong: bool = False


def outcome(
    kind: LockSection,
    entry: dict[str, Any],
    locked: Locked | None,
    published: Callable[[dict[str, Any]], str],
    accepted: bool,
) -> Refreshed:
    """Return what an entry of the list becomes in the lock.

    Args:
        kind: The section of the entry.
        entry: The image or the chart of mirror.yaml.
        locked: What the lock has of it, None if nothing.
        published: Returns the digest that is published, or raises Unread.
        accepted: Take a digest that was published again under the same version, and `null` for a new version that
            cannot be read.
    """
    name, version = entry[kind.name], entry[kind.version]
    before = locked[kind.version] if locked else None
    pinned = locked[kind.pin] if locked else None
    same = before == version
    title = f"{kind.word} {name} {version}" if same or not before else f"{kind.word} {name} {before} -> {version}"
    accept = f"`python -m delivery.refresh_lock --accept {name}`"
    try:
        found = published(entry)
    except Unread as why:
        if same:
            return Refreshed(locked, f"{title}: not read: {why}", wrong=not why.needs_login)
        if not accepted:
            line = f"{title}: not read, and left as it is: {why}. To let the first copy record it, run {accept}"
            return Refreshed(locked, line, wrong=True)
        return Refreshed({kind.version: version, kind.pin: None}, f"{title}: null, because it was not read: {why}")
    if same and found == pinned:
        return Refreshed(locked)
    old, new = f"{kind.prefix}{pinned}" if pinned else "null", f"{kind.prefix}{found}"
    if same and pinned and not accepted:
        stated = f", which {locked['stated_by']} states" if locked and "stated_by" in locked else ""
        line = (
            f"WARNING: {title} was published again: the lock has {old}{stated}, and {_where(entry)} has {new}. "
            f"The lock keeps {old}. Compare the two. To take the new one, run {accept}"
        )
        return Refreshed(locked, line, wrong=True)
    return Refreshed({kind.version: version, kind.pin: found}, f"{title}: {old if locked else 'new'} -> {new}")


def _where(entry: dict[str, Any]) -> str:
    """Return the registry or the repository of an entry."""
    return str(entry.get("oci") or entry["repository"])
