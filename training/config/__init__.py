"""The job file as frozen models: what to train, and on how many nodes. Each section has a module, and `job` has all.

This package imports neither torch nor anything else of this project. The launcher validates a job file with the code
that the job runs, on machines without torch.

A problem is a Pydantic error. For our own rules, the error's `ctx["remedy"]` says how to fix it.
"""

from training.config.batch import Batch
from training.config.checkpoint import Checkpoint
from training.config.data import Data
from training.config.evaluation import Evaluation
from training.config.float8 import Float8
from training.config.footprint import Footprint, footprint
from training.config.instability import Instability
from training.config.job import Job
from training.config.layout import Layout
from training.config.layout_choices import SHARE_OF_PEAK, LayoutChoice, NodeRates, layout_choices
from training.config.life_cycle import LifeCycle
from training.config.limits import layout_problems
from training.config.loading import LAUNCHER_SECTIONS, WrongJobFile, load
from training.config.location import LOCATION_FORMS, Location
from training.config.memory import Memory
from training.config.optimizer import Optimizer, Schedule
from training.config.parallel import ContextMethod, Parallel, PipelineSchedule
from training.config.trackers import SAGEMAKER_MLFLOW, SECRET_NAME, Trackers
from training.config.variant import RotaryScaling, Variant

__all__ = [
    "LAUNCHER_SECTIONS",
    "LOCATION_FORMS",
    "SAGEMAKER_MLFLOW",
    "SECRET_NAME",
    "SHARE_OF_PEAK",
    "Batch",
    "Checkpoint",
    "ContextMethod",
    "Data",
    "Evaluation",
    "Float8",
    "Footprint",
    "Instability",
    "Job",
    "Layout",
    "LayoutChoice",
    "LifeCycle",
    "Location",
    "Memory",
    "NodeRates",
    "Optimizer",
    "Parallel",
    "PipelineSchedule",
    "RotaryScaling",
    "Schedule",
    "Trackers",
    "Variant",
    "WrongJobFile",
    "footprint",
    "layout_choices",
    "layout_problems",
    "load",
]
