"""A rank whose port is in use connects once the port is free, and prints `connected`.

torchrun --nproc-per-node 1 taken_port.py
"""

import os
import socket
import threading

import torch.distributed as dist

from training.parallel.world import connect, meet, this_process


def main() -> None:
    """Hold the port of the store for a second."""
    taken = socket.create_server(("127.0.0.1", 0))
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])}
    threading.Timer(1, taken.close).start()
    connect(this_process(), meet())
    print("connected", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
