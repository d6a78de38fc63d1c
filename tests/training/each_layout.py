"""The main function of programs that torchrun starts to measure layouts. test_layouts.py reads what they print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from training.parallel.world import connect, meet, this_process


def measure_each(measure: Callable[[Any], dict[str, Any]]) -> None:
    """Call a function on every rank for each layout of the command line, which rank 0 then prints as a JSON object.

    The command line has one JSON object: the argument of the function by the name of the layout.
    """
    connect(this_process(), meet())
    for name, argument in json.loads(sys.argv[1]).items():
        found = measure(argument)
        if dist.get_rank() == 0:
            print("RESULT " + json.dumps({"layout": name} | found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def of_all_ranks(found: Any) -> list[Any]:
    """Return what each rank found, in the order of the ranks. Every rank calls this."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, found)
    return everyone
