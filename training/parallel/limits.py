"""Check that a layout fits the model, before the model is built."""

from training.config import Job, Layout, layout_problems
from training.config.presets import Shape
from training.errors import UserError


def check(shape: Shape, vocabulary: int, job: Job, layout: Layout) -> None:
    """Raise a UserError that names the wrong number if the model cannot be divided as the layout requires."""
    for problem in layout_problems(shape, vocabulary, job, layout):
        raise UserError(problem)
