"""Whether the rank 0 of a program is on this node: it prints the steps.

torchrun numbers the nodes by the order of their names, and anew when a node joins or leaves. So ip-10-0-1-17 has rank 0
beside ip-10-0-1-9, which is the first node of the run. `_mark_rendezvous_complete` in
torch/distributed/elastic/rendezvous/dynamic_rendezvous.py of PyTorch 2.13.0 (read 2026-11-30)
"""

import os

from trainway.launch.node.process_tree import variables_of
from trainway.launch.node.program_stop import ranks_below


def has_rank_zero() -> "bool | None":
    """Return whether one of the ranks below this process is rank 0. None without ranks, as under Ray."""
    ranks = ranks_below(os.getpid())
    return any(b"RANK=0" in variables_of(each) for each in ranks) if ranks else None
