"""The nodes that a run suspects: those that were named as the cause of a failure, or of slow steps.

A node is suspect if it was named twice within SECONDS_OF_A_SUSPICION. `stand_by.py` says what follows.

The record is in the directory of the run, which every target brings to the next start: one small file per naming, in
`suspects/<node>`. Several nodes write at the same time, and about each other. With a file of its own, no writer undoes
what another has written. A file appears whole, because it is renamed. Its time is that of its last change. Clocks of
nodes differ by seconds, which is nothing beside a day.

A write that fails, as on a full disk, names nobody. The run continues as it did before. The same job, or another job of
the team, can write anything there. A file that `suspect` could not have written therefore names nobody either.
"""

import contextlib
import hashlib
import itertools
import json
import os
import re
import signal
import stat
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from training.errors import HUNG_STATUS
from training.hosts.this_node import node_name

DIRECTORY = "suspects"
SECONDS_OF_A_SUSPICION = 24 * 3600
"""How long a naming counts. It is no setting: a fault that does not come back within a day is no reason to lose a node,
and whoever repairs a node deletes its record."""
NAMINGS_OF_A_SUSPECT = 2
"""A first naming can be chance, or a fault of the network."""
# A file of a clock that is further ahead would count for longer than a day.
_MOST_SECONDS_AHEAD = 3600
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_FILE = re.compile(r"[0-9a-f]{16}-(fault|slow|judged)\.json")
_LONGEST_REASON, _LARGEST_FILE, _MOST_FILES = 500, 4096, 1000

NamedBy = Literal["fault", "slow", "judged"]
"""What named a node in an attempt: a failure that ended the attempt, slow steps, or the repetition of steps that two
replicas had taken differently. One failure can show as several, for example as a killed rank and as a hang. So a node
is named once for each kind in an attempt."""


@dataclass(frozen=True)
class Suspicion:
    """One naming of a node: when, in seconds since the epoch, and why."""

    time: float
    reason: str


def attempt_of(address: str, port: object) -> str:
    """Return a name of an attempt that all of its nodes know. Its ranks meet at an address with a port of its own."""
    return hashlib.sha256(f"{address}:{port}".encode()).hexdigest()[:16]


def this_attempt() -> str:
    """Return the name of the attempt of this rank."""
    return attempt_of(os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", ""))


def suspect(run: Path, node: str, kind: NamedBy, reason: str, attempt: str) -> None:
    """Name a node in the record of the run. Never raises.

    Nothing is written if the node was named in this attempt by the same kind of event, or excused in it.
    """
    directory = run / DIRECTORY / node
    file = directory / f"{attempt}-{kind}.json"
    printable = "".join(each if each.isprintable() else " " for each in reason)[:_LONGEST_REASON]
    if not _NODE.fullmatch(node):
        return
    with contextlib.suppress(OSError):
        if file.exists() or (kind == "fault" and _excuse(directory, attempt).exists()):
            return
        directory.mkdir(parents=True, exist_ok=True)
        part = directory / f"{uuid.uuid4().hex}.part"
        try:
            part.write_text(json.dumps({"reason": printable}), encoding="utf-8")
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)


def judge_end(run: Path, statuses: Sequence[int | None], attempt: str) -> None:
    """Name this node, or excuse it, by the statuses with which its ranks ended. Its agent calls this at once.

    A rank that was killed, or that failed by a mistake in the job, no longer answers. The watchdogs of other nodes take
    it for one that hangs, many seconds later. The excuse says that this attempt had another end here.
    """
    node = node_name()
    for rank, status in enumerate(statuses):
        if status == -signal.SIGBUS:
            suspect(run, node, "fault", f"local rank {rank} ended by SIGBUS", attempt)
            return
    if HUNG_STATUS not in statuses:
        excuse(run, node, attempt)


def excuse(run: Path, node: str, attempt: str) -> None:
    """Let no later event name a node as the one that ended this attempt. Never raises."""
    with contextlib.suppress(OSError):
        file = _excuse(run / DIRECTORY / node, attempt)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def is_suspect(suspicions: Sequence[Suspicion]) -> bool:
    """Return whether a node was named often enough."""
    return len(suspicions) >= NAMINGS_OF_A_SUSPECT


def suspicions(run: Path, node: str) -> list[Suspicion]:
    """Return the namings of a node that count now, oldest first. What cannot be read, or is no naming, is left out."""
    now, found = time.time(), list[Suspicion]()
    if not _NODE.fullmatch(node):
        return found
    with contextlib.suppress(OSError), os.scandir(run / DIRECTORY / node) as entries:
        for entry in itertools.islice(entries, _MOST_FILES):
            if _FILE.fullmatch(entry.name) and (each := _read(Path(entry.path))):
                found.append(each)
    return sorted(
        (each for each in found if -_MOST_SECONDS_AHEAD <= now - each.time <= SECONDS_OF_A_SUSPICION),
        key=lambda each: each.time,
    )


def suspect_nodes(run: Path) -> Mapping[str, list[Suspicion]]:
    """Return the nodes that are suspect now, with their namings, in the order of their names."""
    names = list[str]()
    with contextlib.suppress(OSError), os.scandir(run / DIRECTORY) as entries:
        names = sorted(entry.name for entry in itertools.islice(entries, _MOST_FILES))
    found = {name: suspicions(run, name) for name in names}
    return {name: each for name, each in found.items() if is_suspect(each)}


def why_suspect(suspicions: Sequence[Suspicion]) -> str:
    """Return the two newest namings, each with its time."""
    return "; ".join(
        f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(each.time))} {each.reason}"
        for each in suspicions[-NAMINGS_OF_A_SUSPECT:]
    )


def _excuse(directory: Path, attempt: str) -> Path:
    return directory / f"{attempt}.excused"


def _read(file: Path) -> Suspicion | None:
    """Return the naming in a file, or None for anything that `suspect` does not write."""
    try:
        # A pipe would block, and a link could lead anywhere.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_FILE:
            return None
        found = json.loads(os.read(descriptor, _LARGEST_FILE))
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(descriptor)
    if not isinstance(found, dict) or set(found) != {"reason"}:
        return None
    reason = found["reason"]
    if not isinstance(reason, str) or not 0 < len(reason) <= _LONGEST_REASON or not reason.isprintable():
        return None
    return Suspicion(status.st_mtime, reason)
