"""The evidence of a run under Slurm for `trainway explain`."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator, Mapping

from trainway.explain.evidence import Evidence
from trainway.explain.gather import first_of_log, log_of_path, with_exits
from trainway.explain.slurm import slurm_evidence
from trainway.launch.slurm.cluster import on_cluster
from trainway.launch.slurm.logs import is_of_a_rank
from trainway.launch.target.protocol import Handle

_MOST_BYTES_OF_A_FILE = 256 * 2**10
_OF_SLURM = "slurm.log"
_END_OF_PART = "-- trainway --"


def evidence(handle: Handle) -> Evidence:
    """Return what Slurm says of the job and its nodes, and the end of every log of its newest start.

    Raises UsageError if the cluster cannot be asked.
    """
    job, directory = shlex.quote(handle["job"]), shlex.quote(f"{handle['directory']}/logs")
    line = f"""
sacct --parsable2 --jobs={job} --format=JobID,State,ExitCode,End,NodeList,Reason 2>/dev/null || true
echo '{_END_OF_PART}'
scontrol show job {job} 2>/dev/null || true
echo '{_END_OF_PART}'
nodes=$(scontrol --oneliner show job {job} 2>/dev/null | grep -o ' NodeList=[^ ]*' | cut -d= -f2 || true)
if [[ $nodes && $nodes != '(null)' ]]; then
  scontrol show node "$nodes" 2>/dev/null || true
fi
echo '{_END_OF_PART}'
cd {directory} 2>/dev/null || exit 0
newest=$(find . -maxdepth 1 -name 'start-*' -printf '%P\\n' | sort --version-sort | tail -n 1)
find {_OF_SLURM} ${{newest:+"$newest"}} -name '*.log' -size +0 2>/dev/null | while read -r file; do
  echo "$file $(tail -c {_MOST_BYTES_OF_A_FILE} "$file" | base64 -w 0)"
done
"""
    said = on_cluster(line, handle, what=f"job {handle['job']} cannot be explained")
    *parts, files = said.split(f"{_END_OF_PART}\n")
    evidence = Evidence()
    for part in parts:
        evidence += slurm_evidence(part, f"job {handle['job']}")
    rows = (row.split(" ", 1) for row in files.splitlines())
    texts = {path: base64.b64decode(text).decode(errors="replace") for path, text in rows}
    if len(texts) > 1:
        # Prefer the files of the ranks: they name the node, and are of the newest start. slurm.log covers all starts.
        lines = texts.get(_OF_SLURM, "").splitlines(keepends=True)
        texts[_OF_SLURM] = "".join(line for line in lines if not is_of_a_rank(line))
    return evidence + with_exits([log_of_path(path, text) for path, text in _whole_logs(texts)])


def _whole_logs(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each log by the path of its last file: its end, which may have begun in the file before."""
    ends = dict[str, tuple[str, str]]()
    for path in sorted(texts):
        _, before = ends.get(first_of_log(path), ("", ""))
        is_complete = len(texts[path].encode()) < _MOST_BYTES_OF_A_FILE
        ends[first_of_log(path)] = path, before + texts[path] if is_complete else texts[path]
    yield from ends.values()
