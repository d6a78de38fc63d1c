"""The names by which the events and the people of a platform know the nodes of a run."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store  # the public name is not declared as exported

# The ID of a Nitro instance, which a container can read, too. Pods of HyperPod cannot reach the metadata service.
# https://gist.github.com/verdimrc/1ba1387ebe5702dadd027f144e128dff (read 2026-11-25)
ASSET_TAG = Path("/sys/devices/virtual/dmi/id/board_asset_tag")


def node_name() -> str:
    """Return the name by which the scheduler of the platform knows this node."""
    return os.environ.get("NODE_NAME") or os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def this_node() -> str:
    """Return the name of this node, and the ID of its instance behind a space if it is one of EC2."""
    name = node_name()
    try:
        tag = ASSET_TAG.read_text().strip()
    except OSError:
        return name
    return f"{name} {tag}" if re.fullmatch(r"i-[0-9a-f]{8,17}", tag) else name


def name_of(node: str) -> str:
    """Return the name of a node without the ID of its instance."""
    return node.partition(" ")[0]


def nodes_of_run(store: Store, rank: int) -> list[str]:
    """Return the nodes in the order of their ranks, on rank 0. Other ranks return an empty list, and do not wait.

    The first rank of each node calls this with the store of the rendezvous, and so may the others.
    """
    if os.environ.get("LOCAL_RANK", "0") == "0":
        store.set(f"trainway/node/{os.environ.get('GROUP_RANK', '0')}", this_node())
    if rank:
        return []
    return [
        store.get(f"trainway/node/{number}").decode() for number in range(int(os.environ.get("GROUP_WORLD_SIZE", 1)))
    ]
