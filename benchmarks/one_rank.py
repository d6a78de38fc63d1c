"""The environment of a job's only rank, without torchrun."""

import os
import socket


def environment() -> dict[str, str]:
    """Return this environment with torchrun's variables for one process, and one thread for shared machines."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
