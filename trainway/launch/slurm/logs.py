"""What the processes of a run wrote: files below its directory on the file system, one a rank and stream."""

from __future__ import annotations

import base64
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from trainway.launch.slurm.cluster import on_cluster
from trainway.launch.slurm.watch import state
from trainway.launch.target.protocol import OVER, Handle

SECONDS_BETWEEN_LOOKS = 2.0
# Of one file at a look; the rest comes with the next ones.
_MOST_BYTES = 2**20
# Of a rank, which has a file of its own: the label of srun, for the node, and of torchrun, for the local rank.
_OF_A_RANK = re.compile(r"\d+: \[default\d+\]:")


def logs(handle: Handle, *, follow: bool) -> Iterator[str]:
    """Lines of all nodes and of all starts, `[node local-rank] line`; those of the batch script and torchrun `[slurm]`.

    With `follow` until the run has ended.
    """
    read: dict[str, int] = {}
    begun: dict[str, bytes] = {}
    while True:
        # Asked before the files are read, so that what was written last is read as well.
        ended = not follow or state(handle).phase in OVER
        more = True
        while more:
            new = _new(handle, read)
            for file, content in new.items():
                read[file] = read.get(file, 0) + len(content)
                *lines, begun[file] = (begun.get(file, b"") + content).split(b"\n")
                yield from _shown(file, lines)
            more = any(len(content) == _MOST_BYTES for content in new.values())
        if ended:
            for file, rest in begun.items():
                yield from _shown(file, [rest] if rest else [])
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _shown(file: str, lines: list[bytes]) -> Iterator[str]:
    """`start-0/node/…/attempt_0/local rank/stdout.log`, or `slurm.log`."""
    parts = PurePosixPath(file).parts
    for line in (each.decode(errors="replace") for each in lines):
        if len(parts) > 1:
            yield f"[{parts[1]} {parts[-2]}] {line}"
        elif not _OF_A_RANK.match(line):
            yield f"[slurm] {line}"


def _new(handle: Handle, read: Mapping[str, int]) -> dict[str, bytes]:
    """What is in each file after the bytes that were read."""
    offsets = " ".join(f"[{shlex.quote(file)}]={count}" for file, count in read.items())
    line = f"""
cd {shlex.quote(handle["directory"])}/logs 2>/dev/null || exit 0
declare -A seen=({offsets})
find . -name '*.log' -size +0 -printf '%P %s\\n' | sort | while read -r file bytes; do
  from=${{seen[$file]:-0}}
  if ((bytes > from)); then
    echo "$file $(tail -c "+$((from + 1))" "$file" | head -c {_MOST_BYTES} | base64 -w 0)"
  fi
done
"""
    said = on_cluster(line, handle, what=f"the logs of job {handle['job']} cannot be read")
    return {file: base64.b64decode(content) for file, content in (row.split(" ", 1) for row in said.splitlines())}
