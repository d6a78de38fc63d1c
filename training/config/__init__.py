"""The job file: what to train and on how many nodes, as frozen models. A module a section; `job` has them all.

This package imports neither torch nor anything else of this project, because the launcher validates a job file with
the very code that the job runs, on machines where torch does not exist.

A problem is a Pydantic error. Where a rule is ours, the error's `ctx["remedy"]` says what would be right.
"""

from training.config.batch import Batch
from training.config.checkpoint import Checkpoint
from training.config.data import Data
from training.config.evaluation import Evaluation
from training.config.float8 import Float8
from training.config.job import Job
from training.config.layout import Layout
from training.config.life_cycle import LifeCycle
from training.config.loading import load
from training.config.location import LOCATION_FORMS
from training.config.memory import Memory
from training.config.optimizer import Optimizer, Schedule
from training.config.parallel import ContextMethod, Parallel, PipelineSchedule
from training.config.variant import RotaryScaling, Variant

__all__ = [
    "LOCATION_FORMS",
    "Batch",
    "Checkpoint",
    "ContextMethod",
    "Data",
    "Evaluation",
    "Float8",
    "Job",
    "Layout",
    "LifeCycle",
    "Memory",
    "Optimizer",
    "Parallel",
    "PipelineSchedule",
    "RotaryScaling",
    "Schedule",
    "Variant",
    "load",
]
