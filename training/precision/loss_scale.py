"""The factor on a loss in fp16, whose small gradients would be zero without it (arXiv 1710.03740).

In the other precisions it is 1. The whole state is the factor, which is in the run's progress.
"""

INITIAL = 2.0**16
"""What PyTorch's GradScaler starts with."""
LARGEST = 2.0**24
STEPS_BETWEEN_DOUBLINGS = 1000


def initial_scale(precision: str) -> float:
    """The factor of a run's first step."""
    return INITIAL if precision == "fp16" else 1.0


def next_scale(scale: float, step: int, overflowed: bool) -> float:
    """The factor after 1-based `step` of an fp16 run: half after an overflow, twice after every so many steps.

    A step that overflowed changes no weights; the next one tries with less.
    """
    if overflowed:
        return max(scale / 2, 1.0)
    return min(scale * 2, LARGEST) if step % STEPS_BETWEEN_DOUBLINGS == 0 else scale
