"""The outputs that a run had, so that an attempt that finds none of them does not begin anew in silence.

The first node writes down how many files the outputs have, when an attempt begins and when its program has ended. No
file is read. A location that is no path of the node, such as a prefix of S3, is not looked at.
"""

import contextlib
import json
import os
from collections import deque
from pathlib import Path
from typing import Any

from trainway.launch.node.exit_statuses import CannotStart

FROM_SCRATCH = "TRAINWAY_FROM_SCRATCH"
"""The variable with a name for the launch that may begin anew. A restart of that launch has the same name."""
# More files say nothing more, and a file system over the network takes a while to list them.
MOST_FILES = 1000


def check_outputs(run: Path, outputs: str, attempt: int) -> None:
    """Compare the outputs with what the run wrote down before, and write down what they have now.

    Raises CannotStart if they had files and have none. A launch that may begin anew must find none.
    """
    if "://" in outputs:
        return
    before, now = _read(run), _found(Path(outputs)) or {"files": 0}
    launch = os.environ.get(FROM_SCRATCH)
    if launch is not None and launch != before.get("from_scratch"):
        if now["files"]:
            raise CannotStart(
                f"{outputs}: the run cannot begin anew, because its outputs have {_counted(now)}. Move them away, or "
                "launch the job as a new run"
            )
        before = {"from_scratch": launch}
    elif before.get("files") and not now["files"]:
        raise _gone(run, outputs, before)
    _write(run, {**before, **now, "directory": outputs, "attempt": attempt})


def check_outputs_of_others(run: Path, outputs: str, attempt: int) -> None:
    """Raise CannotStart if the outputs are gone, on a node that does not write down what they have.

    Its program could write into them before the first node ends the attempt. If the first node has begun the attempt,
    the program of that node may have emptied them, and they are not looked at.
    """
    if "://" in outputs:
        return
    before, now = _read(run), _found(Path(outputs)) or {"files": 0}
    has_begun = any(each.get("attempt") == attempt for each in (before, _read(run)))
    begins_anew = os.environ.get(FROM_SCRATCH) not in (None, before.get("from_scratch"))
    if before.get("files") and not now["files"] and not has_begun and not begins_anew:
        raise _gone(run, outputs, before)


def _gone(run: Path, outputs: str, before: "dict[str, Any]") -> CannotStart:
    return CannotStart(
        f"{outputs}: the outputs of the run are gone. Attempt {before['attempt']} had {_counted(before)} in "
        f"{before['directory']}, and now there is none. Mount or restore them, or begin anew with `trainway resume "
        f"{run.name} --from-scratch`"
    )


def note_outputs(run: Path, outputs: str, attempt: int) -> None:
    """Write down what the outputs have after the program has ended. A directory that vanished has no say."""
    if "://" in outputs:
        return
    found = _found(Path(outputs))
    if found is not None:
        _write(run, {**_read(run), **found, "directory": outputs, "attempt": attempt})


def _found(outputs: Path) -> "dict[str, Any] | None":
    """Return the number of files, up to MOST_FILES, and the name and the bytes of the newest. None without a directory.

    Files near the top come first. A link counts as a file.
    """
    files: list[tuple[float, str, int]] = []
    directories = deque([outputs])
    try:
        while directories and len(files) < MOST_FILES:
            with os.scandir(directories.popleft()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(Path(entry.path))
                    else:
                        # The program of another node may delete it meanwhile.
                        with contextlib.suppress(FileNotFoundError):
                            status = entry.stat(follow_symlinks=False)
                            name = Path(entry.path).relative_to(outputs).as_posix()
                            files.append((status.st_mtime, name, status.st_size))
                    if len(files) == MOST_FILES:
                        break
    except OSError:
        if not outputs.is_dir():
            return None
    if not files:
        return {"files": 0}
    _, newest, size = max(files)
    return {"files": len(files), "newest": newest, "bytes": size}


def _counted(found: "dict[str, Any]") -> str:
    least = "at least " if found["files"] == MOST_FILES else ""
    count = f"{least}{found['files']} file{'s' if found['files'] > 1 else ''}"
    return f"{count}, the newest {found['newest']} of {found['bytes']} bytes"


def _read(run: Path) -> "dict[str, Any]":
    """Return what was written down, or nothing for a first attempt or a damaged file."""
    try:
        written = json.loads(_record(run).read_text())
    except (OSError, ValueError):
        return {}
    return written if isinstance(written, dict) else {}


def _write(run: Path, found: "dict[str, Any]") -> None:
    record = _record(run)
    unfinished = record.with_suffix(".unfinished")
    # The program does not wait for a record.
    with contextlib.suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(found) + "\n")
        unfinished.replace(record)


def _record(run: Path) -> Path:
    return run / "attempts" / "outputs.json"
