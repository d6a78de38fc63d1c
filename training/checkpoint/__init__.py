"""Checkpoints of model, optimizer, and progress, in storage and in the memory of the nodes.

`stored` writes and reads checkpoints with torch.distributed.checkpoint, on a file system or in S3. `plans` decides
which rank writes what. `memory` keeps copies in the nodes' memory, so that a restart does not have to read storage.
`saver` writes both while training continues, after the steps that `cadence` chooses, and `resume` finds the newest
readable checkpoint.
"""

from training.checkpoint.agreement import Unreadable
from training.checkpoint.cadence import Cadence
from training.checkpoint.memory import NodeMemory
from training.checkpoint.metadata_file import COMMIT
from training.checkpoint.resume import resume
from training.checkpoint.saver import Destination, FailedSave, Saved, Saver
from training.checkpoint.state import Progress, state_of
from training.checkpoint.stored import load, newest, prune, save, step_location

__all__ = [
    "COMMIT",
    "Cadence",
    "Destination",
    "FailedSave",
    "NodeMemory",
    "Progress",
    "Saved",
    "Saver",
    "Unreadable",
    "load",
    "newest",
    "prune",
    "resume",
    "save",
    "state_of",
    "step_location",
]
