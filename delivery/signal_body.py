"""Prints the JSON document that a CloudFormation wait condition expects.

Arguments: SUCCESS|FAILURE REASON UNIQUE_ID LOG_FILE DATA_FILE. A failure's Reason ends with the log's last lines.
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-waitcondition.html (read 2026-11-21)
"""

import json
import re
import sys
from pathlib import Path

# A signal passes at most 4,096 bytes: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
SIGNAL_BYTES = 4096
# Stack events are read in a terminal: enough for a stack of error lines, not for a build log.
REASON_CHARACTERS = 1500
LOG_BYTES_READ = 64 * 1024

ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CONTROL = re.compile(r"[^\S\n]|[\x00-\x08\x0b-\x1f\x7f\ufffd]")


def readable(raw: bytes) -> str:
    """Returns log bytes as text without colors, control characters, progress-bar rewrites and blank lines."""
    text = ESCAPE_SEQUENCE.sub("", raw.decode(errors="replace"))
    lines = (CONTROL.sub(" ", line.rsplit("\r", 1)[-1]).rstrip() for line in text.replace("\r\n", "\n").split("\n"))
    return "\n".join(line for line in lines if line)


def signal(status: str, reason: str, unique_id: str, log: bytes, data: str) -> str:
    """Returns the document as JSON in ASCII, at most 4,096 bytes long.

    Raises:
        ValueError: `data` alone does not fit.
    """
    if status == "FAILURE":
        tail = readable(log)
        reason = f"{reason}. Last lines of its log:\n{tail}" if tail else f"{reason}. Its log is empty."
    head, _, tail = reason.partition("\n")
    room = REASON_CHARACTERS - len(head) - 1
    while True:
        shown = f"{head}\n{tail[-room:]}" if tail and room > 0 else head[:REASON_CHARACTERS]
        body = json.dumps({"Status": status, "Reason": shown, "UniqueId": unique_id, "Data": data})
        if len(body) <= SIGNAL_BYTES:
            return body
        # Characters outside ASCII take up to twelve bytes each, so the text shrinks until it fits.
        if room <= 0:
            raise ValueError(f"the signal is {len(body)} bytes without its log; CloudFormation takes {SIGNAL_BYTES}")
        room -= 100


def last_bytes(path: Path) -> bytes:
    """Returns the end of the file at `path`, or nothing where there is no file."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_BYTES_READ))
        return file.read()


def main() -> int:
    status, reason, unique_id, log, data = sys.argv[1:]
    data_path = Path(data)
    passed = data_path.read_text() if status == "SUCCESS" and data_path.exists() else ""
    print(signal(status, reason, unique_id, last_bytes(Path(log)), passed), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
