"""The nodes of a run, by the names that events of the platform have for them.

Each node writes a file below `nodes` in the directory of the run. The node that leads reads them into the state of the
run. The training job does the same in training/hosts/this_node.py, by the store of its ranks.
"""

import contextlib
import json
import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path

DIRECTORY = "nodes"
# The ID of a Nitro instance, which a container can read, too. Pods of HyperPod cannot reach the metadata service.
# https://gist.github.com/verdimrc/1ba1387ebe5702dadd027f144e128dff (read 2026-11-25)
ASSET_TAG = Path("/sys/devices/virtual/dmi/id/board_asset_tag")
# trainway/launch/registry/state.py and trainway/monitoring/tell_people.py accept the same.
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}( i-[0-9a-f]{8,17})?")
_FILE = re.compile(r"(\d{1,6})\.json")
_MOST_BYTES = 4096


def name_of_node() -> str:
    """Return the name by which the scheduler of the platform knows this node."""
    return os.environ.get("NODE_NAME") or os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def write_node(run: Path, rank: int, start: str, name: str) -> None:
    """Write the name of this node, and the ID of its instance behind a space if it is one of EC2.

    `start` names the start of the run: a node that an earlier start had is none of this one.
    """
    tag = ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        tag = ASSET_TAG.read_text().strip()
    node = f"{name} {tag}" if re.fullmatch(r"i-[0-9a-f]{8,17}", tag) else name
    file = run / DIRECTORY / f"{rank}.json"
    # Without space for it, the program starts.
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        new.write_text(json.dumps({"start": start, "node": node}))
        new.replace(file)


def read_nodes(directories: "Iterable[Path]", start: str) -> "list[str]":
    """Return the nodes of a start of the run in the order of their ranks, or none if the first one is not known.

    Programs of the run can write to the directories, so what is no node is left out.
    """
    found: dict[int, str] = {}
    for directory in directories:
        with contextlib.suppress(OSError):
            for file in directory.iterdir():
                if (number := _FILE.fullmatch(file.name)) and (node := _node_in(file, start)):
                    found.setdefault(int(number.group(1)), node)
    return [found[rank] for rank in sorted(found)] if 0 in found else []


def _node_in(file: Path, start: str) -> "str | None":
    try:
        with file.open("rb") as opened:
            stated = json.loads(opened.read(_MOST_BYTES))
        node = stated["node"]
        return node if stated["start"] == start and _NODE.fullmatch(node) else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
