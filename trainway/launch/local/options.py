"""Options of `trainway launch --target local`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from trainway.launch.target.options import Flag


@dataclass(frozen=True)
class LocalOptions:
    """Options of one run on this machine. `processes` is the number of ranks."""

    processes: Annotated[int, Flag("Start N ranks on this machine. Default: 2.", metavar="N", least=1)] = 2
