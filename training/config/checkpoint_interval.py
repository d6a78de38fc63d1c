"""The best interval between two checkpoints, from the cost of a save and the rate of interruptions, without torch.

A run loses time in two ways. It stands still for each save, and after an interruption it repeats the steps since its
newest checkpoint. The sum of both losses has a minimum.
"""

import math
from dataclasses import dataclass
from typing import Literal

INTERRUPTIONS_PER_1000_NODE_DAYS = 3.79
"""419 unexpected interruptions in 54 days on 16,384 H100, which are 2,048 nodes: "The Llama 3 Herd of Models", section
3.3.4 and table 5, https://arxiv.org/abs/2407.21783 (looked up 2026-11-26)."""

SECONDS_PER_DAY = 86_400


@dataclass(frozen=True)
class ChosenInterval:
    """An interval between two checkpoints, and the figures that it follows from."""

    steps: int
    stall_seconds: float
    """Seconds for which training stands still for a save."""
    write_seconds: float
    """Seconds from the beginning of a save until the checkpoint is complete."""
    step_seconds: float
    """Seconds of a step, without the time for which it waits for a save."""
    nodes: int
    interruptions_per_1000_node_days: float
    bound: Literal["optimum", "write", "step"]
    """What decided: the formula, the time of a write, or that an interval has at least one step."""

    @property
    def seconds(self) -> float:
        """Return the seconds of the steps between two checkpoints."""
        return self.steps * self.step_seconds

    @property
    def sentence(self) -> str:
        """Return the interval with its inputs, on one line."""
        days = seconds_between_interruptions(self.nodes, self.interruptions_per_1000_node_days) / SECONDS_PER_DAY
        of_nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        reasons = {
            "optimum": "the optimum",
            "write": "because the optimum is shorter than a write",
            "step": "because the optimum is shorter than a step",
        }
        return (
            f"{self.steps} steps ({self.seconds:.4g} s), {reasons[self.bound]}: a save stops training for "
            f"{self.stall_seconds:.4g} s and is complete after {self.write_seconds:.4g} s, a step takes "
            f"{self.step_seconds:.4g} s, and {of_nodes} with {self.interruptions_per_1000_node_days:g} interruptions "
            f"per 1,000 node-days have one in {days:.4g} days"
        )


def seconds_between_interruptions(nodes: int, per_1000_node_days: float) -> float:
    """Return the mean time in seconds between two interruptions of a run on `nodes` nodes.

    The failure of any node interrupts the whole run, so the rate grows with the number of nodes.
    """
    return 1000 * SECONDS_PER_DAY / (nodes * per_1000_node_days)


def optimal_seconds(stall_seconds: float, between_interruptions: float) -> float:
    """Return the seconds of training between two saves that lose the least time.

    This is the higher-order estimate of Daly: "A higher order estimate of the optimum checkpoint interval for restart
    dumps", Future Generation Computer Systems 22 (2006), https://doi.org/10.1016/j.future.2004.11.016. Its first term
    is Young's first order, sqrt(2 * stall * between), of Communications of the ACM 17 (1974). Both agree to 1 % while a
    save takes less than a 3,000th of the time between interruptions. When a save takes half of that time, Young's
    interval is 43 % too long, and loses 5 % more time. The higher order is as cheap to compute, and also holds for
    nodes that fail often. The time of a restart does not change the optimum.

    The series is valid while a save takes less than twice the time between interruptions. Beyond that, no interval
    makes much progress, and Daly returns the time between interruptions.
    """
    if stall_seconds >= 2 * between_interruptions:
        return between_interruptions
    share = stall_seconds / (2 * between_interruptions)
    series = 1 + math.sqrt(share) / 3 + share / 9
    return math.sqrt(2 * stall_seconds * between_interruptions) * series - stall_seconds


def choose_interval(
    stall_seconds: float, write_seconds: float, step_seconds: float, nodes: int, per_1000_node_days: float
) -> ChosenInterval:
    """Return the interval in whole steps that loses the least time. `step_seconds` is more than 0.

    It has at least one step. It is at least as long as a write, because only one checkpoint is saved at a time: the
    next save would wait for the write, and training would wait for the save. An asynchronous write has no cost of its
    own, because training continues during the write. An interruption during a write also loses the interval before it,
    but this loss does not depend on the length of the interval.
    """
    optimum = optimal_seconds(stall_seconds, seconds_between_interruptions(nodes, per_1000_node_days)) / step_seconds
    steps, least = max(1, round(optimum)), math.ceil(write_seconds / step_seconds)
    bound: Literal["optimum", "write", "step"] = "optimum" if optimum >= 0.5 else "step"
    if least > steps:
        steps, bound = least, "write"
    return ChosenInterval(steps, stall_seconds, write_seconds, step_seconds, nodes, per_1000_node_days, bound)
