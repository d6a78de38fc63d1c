"""The first process of a lab of nodes, and all that its nodes reach beyond each other: nothing, which it writes down.

`gateway.py ADDRESS FILE SECONDS` answers every question for a name with "no such name", appends the name to FILE, and
ends after so many seconds. When it ends, its PID namespace does, and all nodes with it.
"""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path

NO_SUCH_NAME = bytes([0x81, 0x83])


def name_of(question: bytes) -> str:
    """Returns the name that a DNS question asks for (RFC 1035, 4.1.2)."""
    labels, place = [], 12
    while length := question[place]:
        labels.append(question[place + 1 : place + 1 + length].decode(errors="replace"))
        place += 1 + length
    return ".".join(labels)


def main() -> None:
    address, file, seconds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    # Whose parent has ended is this one's child, and nobody waits for it.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.alarm(seconds)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        file.touch()
        while True:
            question, asker = server.recvfrom(4096)
            try:
                name = name_of(question)
            except IndexError:
                continue
            with file.open("a") as asked:
                asked.write(f"{name}\n")
            server.sendto(question[:2] + NO_SUCH_NAME + question[4:6] + bytes(6) + question[12:], asker)


if __name__ == "__main__":
    main()
