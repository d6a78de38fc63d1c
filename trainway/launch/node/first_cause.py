"""Why the job failed on this host, for the field FailureReason of the training job.

https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-output.html (read 2026-11-23)
"""

import re
from pathlib import Path

CHARACTERS = 1024
"""SageMaker reads no more of the file."""
# A line that ends a traceback, and one in which the training job explains a mistake.
_ERROR = re.compile(r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*|\S+\.ya?ml: .+)$")


def first_cause(run: Path, logs: Path, status: int) -> str:
    """Return the first cause in at most CHARACTERS characters.

    It is what the starter of a program recorded, or else the error of the rank whose log has been silent the longest:
    the others waited for that rank. `logs` is torchrun's directory of logs on this host.
    """
    recorded = sorted((run / "attempts").glob("*/failure"), key=lambda file: int(file.parent.name))
    if recorded:
        return recorded[-1].read_text(encoding="utf-8", errors="replace").strip()[:CHARACTERS]
    last_written = sorted(logs.rglob("stderr.log"), key=lambda file: file.stat().st_mtime_ns)
    for file in last_written:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line for line in lines if _ERROR.match(line)]
        if errors:
            return f"rank {file.parent.name} of this host: {errors[-1]}"[:CHARACTERS]
    return f"the command ended with exit status {status}"
