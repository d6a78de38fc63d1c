"""Read the logs of a run: a file for each rank and stream, below the run's directory on the file system."""

from __future__ import annotations

import base64
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from trainway.launch.slurm.cluster import on_cluster, slurm_is_here
from trainway.launch.slurm.watch import state
from trainway.launch.target.protocol import OVER, Handle
from trainway.launch.target.wanted_lines import EVERY_LINE, WantedLines, cannot_choose

# How often Slurm is asked whether the run has ended, and how often files are looked for from another machine.
SECONDS_BETWEEN_QUESTIONS = 2.0
# Of one file at a look; the rest comes with the next ones.
_MOST_BYTES = 2**20
# Of all files at a look. A run on 64 nodes has a thousand of them, and the answer of a session comes as a whole.
_MOST_BYTES_AT_ONCE = 8 * 2**20
# Of a rank, which has a file of its own: the label of srun, for the node, and of what starts the ranks, for the local
# rank.
_OF_A_RANK = re.compile(r"\d+: \[default\d+\]:")


def logs(handle: Handle, *, follow: bool, wanted: WantedLines = EVERY_LINE) -> Iterator[str]:
    """Yield the lines of all starts as `[NODE LOCAL_RANK] LINE`. Other lines have `[slurm]`.

    With `follow` until the run has ended. The files have no times, so that their lines come file by file.
    """
    if wanted.since_seconds is not None:
        why = "Slurm and torchrun write no times into the logs"
        raise cannot_choose("--since", f"job {handle['job']}", why, "use --tail, or --attempt for what came last")
    read: dict[str, int] = {}
    begun: dict[str, bytes] = {}
    tail, asked, ended = wanted.tail, -SECONDS_BETWEEN_QUESTIONS, not follow
    while True:
        if follow and time.monotonic() - asked >= SECONDS_BETWEEN_QUESTIONS:
            # Asked before the files are read, so that what was written last is read as well.
            ended, asked = state(handle).phase in OVER, time.monotonic()
        more, last_lines = True, dict[str, list[str]]()
        while more:
            new, more = _new(handle, read, wanted, tail)
            for file, (end, content) in new.items():
                read[file] = end
                *lines, begun[file] = (begun.get(file, b"") + content).split(b"\n")
                if tail is None:
                    yield from wanted.of_processes(_shown(file, lines))
                else:
                    last_lines.setdefault(_process(file), []).extend(_shown(file, lines))
        for of_stream in last_lines.values():
            yield from wanted.of_processes(of_stream[len(of_stream) - min(tail or 0, len(of_stream)) :])
        # What comes later is wanted as a whole.
        tail = None
        if ended:
            for file, rest in begun.items():
                yield from wanted.of_processes(_shown(file, [rest] if rest else []))
            return
        time.sleep(_seconds_between_looks(len(read)))


def _seconds_between_looks(files: int) -> float:
    """Return how long a follower waits. A look asks the file system for each file, or opens a session from afar."""
    return min(SECONDS_BETWEEN_QUESTIONS, max(0.1, files * 0.002)) if slurm_is_here() else SECONDS_BETWEEN_QUESTIONS


def _process(file: str) -> str:
    """Return a key of the stream that wrote a file. The starter begins another file when one is full."""
    return re.sub(r"_\d{6}(?=\.log$)", "", file)


def _shown(file: str, lines: list[bytes]) -> Iterator[str]:
    """`start-0/node/…/attempt_0/local rank/stdout.log`, or `slurm.log`."""
    parts = PurePosixPath(file).parts
    for line in (each.decode(errors="replace") for each in lines):
        if len(parts) > 1:
            yield f"[{parts[1]} {parts[-2]}] {line}"
        elif not is_of_a_rank(line):
            yield f"[slurm] {line}"


def is_of_a_rank(line: str) -> bool:
    """Return whether a line of slurm.log is also in the log file of a rank."""
    return _OF_A_RANK.match(line) is not None


def _new(
    handle: Handle, read: Mapping[str, int], wanted: WantedLines, last: int | None
) -> tuple[dict[str, tuple[int, bytes]], bool]:
    """Return what is in each wanted file after the bytes that were read, with the bytes that then are.

    Of a file that was not read, return the `last` lines if that is a number. Also return whether there is more: a look
    ends after _MOST_BYTES_AT_ONCE, however many files there are.
    """
    offsets = " ".join(f"[{shlex.quote(file)}]={count}" for file, count in read.items())
    start = "*" if wanted.attempt is None else f"start-{wanted.attempt - 1}"
    chosen = f"./{start}/{_glob(wanted.node)}/*/{_glob(wanted.rank)}/*.log"
    of_slurm = "" if (wanted.node, wanted.rank, wanted.attempt) != (None, None, None) else "-o -path './*.log'"
    tail = "" if last is None else str(last)
    line = f"""
cd {shlex.quote(handle["directory"])}/logs 2>/dev/null || exit 0
declare -A seen=({offsets})
left={_MOST_BYTES_AT_ONCE} tail={tail}
find . -size +0 \\( -path {shlex.quote(chosen)} {of_slurm} \\) -printf '%P %s\\n' |
  LC_ALL=C sort | while read -r file bytes; do
  from=${{seen[$file]:-0}}
  ((bytes > from)) || continue
  if ((left <= 0)); then
    echo more
    break
  fi
  if [[ -n "$tail" && -z "${{seen[$file]:-}}" ]]; then
    kept=$(head -c "$bytes" "$file" | tail -n "$tail" | wc -c)
    from=$((bytes - kept))
  fi
  to=$((bytes - from > {_MOST_BYTES} ? from + {_MOST_BYTES} : bytes))
  left=$((left - (to - from)))
  echo "$file $to $(tail -c "+$((from + 1))" "$file" | head -c $((to - from)) | base64 -w 0)"
  ((to == bytes)) || echo more
done
"""
    said = on_cluster(line, handle, what=f"the logs of job {handle['job']} cannot be read").splitlines()
    rows = (row.split(" ") for row in said if row != "more")
    return {file: (int(end), base64.b64decode(content)) for file, end, content in rows}, "more" in said


def _glob(chosen: object) -> str:
    """Return the pattern of a folder: of the chosen one, or of all. A person may have written the name of a node."""
    return "*" if chosen is None else re.sub(r"([][*?\\])", r"\\\1", str(chosen))
