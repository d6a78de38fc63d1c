"""Why the job failed on this host, for the field FailureReason of the training job.

https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-output.html (read 2026-11-23)
"""

import os
import re
from pathlib import Path

CHARACTERS = 1024
"""SageMaker reads no more of the file."""
# A traceback is at the end of the log of its rank.
_LAST_BYTES = 2**20
# A line that ends a traceback, and one in which the training job explains a mistake.
_ERROR = re.compile(r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*|\S+\.ya?ml: .+)$")


def first_cause(run: Path, logs: Path, status: int) -> str:
    """Return the first cause in at most CHARACTERS characters.

    It is what the starter of a program recorded, or else the error of the rank whose log has been silent the longest:
    the others waited for that rank. `logs` is torchrun's directory of logs on this host.
    """
    # The program can write there, too.
    recorded = [file for file in (run / "attempts").glob("*/failure") if re.fullmatch(r"[0-9]{1,9}", file.parent.name)]
    recorded.sort(key=lambda file: int(file.parent.name))
    if recorded:
        return "\n".join(_last_lines(recorded[-1])).strip()[:CHARACTERS]
    last_written = sorted(logs.rglob("stderr.log"), key=lambda file: file.stat().st_mtime_ns)
    for file in last_written:
        lines = _last_lines(file)
        errors = [line for line in lines if _ERROR.match(line)]
        if errors:
            return f"rank {file.parent.name} of this host: {errors[-1]}"[:CHARACTERS]
    return f"the command ended with exit status {status}"


def _last_lines(file: Path) -> "list[str]":
    """Return the lines at the end of a file. A log can be larger than the memory."""
    with file.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_BYTES))
        return log.read().decode(errors="replace").splitlines()
