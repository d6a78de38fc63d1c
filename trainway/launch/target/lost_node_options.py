"""Declare the options `--min-nodes` and `--spare-nodes`, which several targets support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from trainway.launch.target.options import Flag


@dataclass(frozen=True, kw_only=True)
class LostNodeOptions:
    """Options of a run that continues after a node failure.

    `min_nodes`: minimum number of nodes for training; None is all nodes. `spare_nodes`: number of additional nodes. A
    spare node runs no ranks until it replaces a failed node.
    """

    min_nodes: Annotated[
        int | None,
        Flag("Continue with at least N nodes when nodes are lost. Default: all nodes.", metavar="N", least=1),
    ] = None
    spare_nodes: Annotated[
        int, Flag("Request N more nodes, which replace nodes that are lost. Default: 0.", metavar="N", least=0)
    ] = 0

    @property
    def continues(self) -> bool:
        """Whether the run continues on its remaining nodes after a node failure."""
        return bool(self.spare_nodes) or self.min_nodes is not None
