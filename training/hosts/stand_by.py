"""Keep a suspect node out of the ranks of its run, but in the job.

A node that was named twice (see `suspect_nodes.py`) joins no round of the rendezvous, if the others are enough for one.
It waits as a spare node does, and ends as a spare node does when the run ends. A pod or a task that ended earlier would
end the job, or would be started again.

If the others are not enough, it joins: a run on a suspect node is better than none. Nodes arrive one by one, and a node
that is lost still counts for some seconds. So the others have SECONDS_FOR_OTHERS to become enough.

The rendezvous is torchrun's. The names below are in torch/distributed/elastic/rendezvous/dynamic_rendezvous.py of
PyTorch 2.11 to 2.13. No public function leaves a round without closing the rendezvous for all nodes.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from torch.distributed.elastic.rendezvous import RendezvousGracefulExitError, RendezvousHandler
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler, _RendezvousExitOp

from training.hosts.suspect_nodes import DIRECTORY, Suspicion, is_suspect, suspicions, why_suspect
from training.hosts.this_node import node_name

SECONDS_FOR_OTHERS = 60.0
"""A lost node leaves the rendezvous after 15 seconds at most, and an agent gives its ranks 30 seconds to end."""
_SECONDS_BETWEEN_LOOKS = 1.0


def stand_by(handler: RendezvousHandler, run: Path) -> None:
    """Return when this node may join the next round of the rendezvous: at once, unless the node is suspect.

    Raises:
        RendezvousGracefulExitError: the run ended while this node was left out.
    """
    node = node_name()
    # On one machine, there is no other node, and no scheduler that could exclude this one.
    if "PET_STANDALONE" in os.environ or not isinstance(handler, DynamicRendezvousHandler):
        return
    if not is_suspect(named := suspicions(run, node)):
        return
    # A round with this node would wait for it.
    handler._stop_heartbeats()
    handler._op_executor.run(_RendezvousExitOp(), time.monotonic() + SECONDS_FOR_OTHERS)
    is_told, enough = False, time.monotonic()
    while is_suspect(suspicions(run, node)):
        if handler.is_closed():
            raise RendezvousGracefulExitError("the run has ended, and this node was left out of it")
        now = time.monotonic()
        if _others(handler) >= handler.settings.min_nodes:
            enough = now
            if not is_told:
                is_told = True
                _tell(_left_out(run, node, named))
        elif not _may_have_others() or now - enough > SECONDS_FOR_OTHERS:
            _tell(_needed(run, node, named))
            return
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    _tell(f"node {node} joins the run again, because its record in {run / DIRECTORY} no longer has two namings")


def _others(handler: DynamicRendezvousHandler) -> int:
    """Return how many other nodes are in the rendezvous, with or without ranks."""
    state = handler._state_holder.state
    return len({*state.participants, *state.wait_list, *state.redundancy_list} - {handler._this_node})


def _may_have_others() -> bool:
    """Return whether the run has spare nodes, or can continue on fewer nodes. The launcher then names a range."""
    return ":" in os.environ.get("PET_NNODES", "")


def _left_out(run: Path, node: str, named: Sequence[Suspicion]) -> str:
    return (
        f"node {node} is left out of the run, which continues without it, because the node was named twice within a "
        f"day: {why_suspect(named)}. {_remedy(node)}. To let it back in, delete {run / DIRECTORY / node}"
    )


def _needed(run: Path, node: str, named: Sequence[Suspicion]) -> str:
    return (
        f"node {node} is suspect, and the run cannot continue without it. The node was named twice within a day: "
        f"{why_suspect(named)}. {_remedy(node)}. After a repair, delete {run / DIRECTORY / node}"
    )


def _remedy(node: str) -> str:
    """Return what an administrator does about a suspect node."""
    if "SLURM_JOB_ID" in os.environ:
        return (
            f'An administrator runs `scontrol update nodename={node} state=drain reason="named twice by a run"`, and '
            "tests it with `trainway verify`"
        )
    if "NODE_NAME" in os.environ:
        return f"An administrator runs `kubectl cordon {node}`, and tests it with `trainway verify`"
    return "Test it, or give the run another node"


def _tell(line: str) -> None:
    print(f"suspect: {line}", file=sys.stderr, flush=True)
