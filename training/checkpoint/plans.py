"""Plan what each rank writes of a checkpoint, and keep the plan for the next save.

torch.distributed.checkpoint plans in three steps: each rank lists the parts of tensors that it has, rank 0 decides from
all lists which rank writes which part, and sends each rank its share. The decision takes rank 0 longer with every rank,
beside its training. From one save to the next, the lists almost never change. A rank whose list is the same therefore
says only that, and writes the share of the save before.

PyTorch has such a cache: `enable_plan_caching`. It does not compare data types, it is shared by all checkpoints of a
process, and a save that fails for lack of space leaves it in a state in which the next save fails.
"""

import dataclasses
from dataclasses import dataclass

from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan

from training.checkpoint.failures import check_space, tensor_bytes
from training.checkpoint.metadata_file import COMMIT
from training.hosts import location_files

_SAME = "the same as in the save before"


@dataclass
class KeptPlans:
    """The plans of the last save that succeeded, on one rank. They are valid on all ranks or on none."""

    listed: SavePlan | None = None
    """The parts that this rank has."""
    share: SavePlan | None = None
    """The parts that this rank writes."""
    metadata: Metadata | None = None
    """What all ranks write. Only rank 0 has it."""

    def forget(self) -> None:
        """Let the next save plan anew. Every rank calls this."""
        self.listed = self.share = self.metadata = None


class PlansDiffer(Exception):
    """Some ranks have other parts than in the save before. Rank 0 does not keep the lists of the others."""


class Planner(DefaultSavePlanner):
    """PyTorch's planner, which uses the plans of the save before.

    Before anything is written, it compares the size of the checkpoint with the free space. Before it overwrites a
    damaged checkpoint, it deletes the `.metadata` that marks it complete.
    """

    def __init__(self, destination: str, kept: KeptPlans) -> None:
        super().__init__()
        self._destination, self._kept = destination, kept
        self._listed: SavePlan | None = None
        self.needed_bytes: int | None = None
        """Size of the tensors of all ranks, once they are planned. Only the rank that plans for all knows it."""

    def create_local_plan(self) -> SavePlan:
        """List the parts of this rank, or say that they are the same."""
        self._listed = super().create_local_plan()
        return SavePlan([], planner_data=_SAME) if self._listed == self._kept.listed else self._listed

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Plan on one rank what all ranks write, before any of them writes.

        Raises:
            PlansDiffer: some ranks say that their parts are the same, and others do not.
        """
        if COMMIT in location_files.list_files(self._destination):
            location_files.delete(self._destination, [COMMIT])
        same = [plan.planner_data == _SAME for plan in all_plans]
        plans, metadata = all_plans, self._kept.metadata
        if not all(same) or metadata is None:
            if any(same):
                raise PlansDiffer
            plans, metadata = super().create_global_plan(all_plans)
        self._kept.metadata = metadata
        self.needed_bytes = tensor_bytes(metadata)
        check_space(self._destination, self.needed_bytes)
        # The writer adds to the metadata what belongs to one checkpoint alone.
        return plans, dataclasses.replace(metadata)

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Return the share of this rank."""
        if new_plan.planner_data == _SAME and self._kept.share:
            # The storage of this checkpoint may want other names for its files.
            new_plan = dataclasses.replace(self._kept.share, storage_data=new_plan.storage_data)
        self._kept.listed, self._kept.share = self._listed, new_plan
        return super().finish_plan(new_plan)


def plans_differ(error: CheckpointException) -> bool:
    """Return whether a save failed only because some ranks have other parts than in the save before."""
    return any(isinstance(reason, PlansDiffer) for reason, _ in error.failures.values())
