"""The state that a checkpoint holds."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, get_state_dict, set_state_dict

from training.checkpoint.identity import ChangedKey, differences
from training.errors import UserError
from training.model.decoder import Decoder

StateDict = dict[str, Any]
"""The state of a run by name: weights in `model`, optimizer state in `optimizer`, and progress in `run`."""


@dataclass(frozen=True)
class Progress:
    """The progress of a run, with everything that an exact resume needs."""

    step: int
    """Optimizer steps done."""
    samples: int
    """Samples seen by all ranks. This number is the whole state of the data."""
    loss: float
    """Loss of the last step."""
    loss_scale: float = 1.0
    """Factor on the loss of the next step. It is 1 unless the precision is fp16."""
    recent: tuple[tuple[float, float], ...] = ()
    """Losses and gradient norms of the last steps, oldest first. Empty unless the job has a rule for spikes."""

    def as_entry(self, identity: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the entry `run` of a state, of plain values.

        `identity` is what must not change between a save and a resume.
        """
        entry = asdict(self) | {"recent": json.dumps(self.recent)}
        return entry | {"identity": json.dumps(identity or {}, sort_keys=True)}

    @classmethod
    def of_entry(cls, entry: dict[str, Any]) -> Self:
        """Return the progress in an entry `run`."""
        values = {key: value for key, value in entry.items() if key != "identity"}
        return cls(**values | {"recent": tuple((loss, norm) for loss, norm in json.loads(entry["recent"]))})


def state_of(
    model: Decoder, optimizer: torch.optim.Optimizer, progress: Progress, identity: dict[str, Any]
) -> StateDict:
    """Return the state of this rank. Its tensors are those that training changes, not copies.

    `identity` is what must not change between a save and a resume.
    """
    return tensors_of(model, optimizer) | {"run": progress.as_entry(identity)}


def tensors_of(model: Decoder, optimizer: torch.optim.Optimizer) -> StateDict:
    """Return the weights and the optimizer's state of this rank. Create the optimizer's state if it has none.

    The settings of the optimizer's groups are left out. They come from the job file, and the learning rate from its
    schedule. A checkpoint also has one list of groups for all ranks, but stages of a pipeline have different groups.
    """
    weights, optimizer_state = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": {"state": optimizer_state["state"]}}


def fill(model: Decoder, optimizer: torch.optim.Optimizer, state: StateDict) -> None:
    """Fill the model and the optimizer from `state`. The optimizer keeps the settings of its groups."""
    groups = get_optimizer_state_dict(model, optimizer)["param_groups"]
    optimizer_state = {"state": state["optimizer"]["state"], "param_groups": groups}
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=optimizer_state)


def progress_in(run: dict[str, Any], identity: dict[str, Any], source: str) -> Progress:
    """Return the progress in the `run` entry of a state from `source`.

    Raises:
        UserError: the checkpoint does not fit the job. The message names the differences, and what loses nothing.
    """
    saved = json.loads(run["identity"])
    if different := differences(saved, identity):
        raise UserError(
            f"{source} does not fit the job file: {'; '.join(map(str, different))}. Set it back, or launch the job as "
            f"a new run with another name and checkpoint.location{_start_from(source, different)}"
        )
    progress, first = Progress.of_entry(run), identity.get("first_loss_scale")
    # A run in another precision has found no factor for this one. Without a factor, it is always 1.
    if first is not None and (first == 1 or saved.get("first_loss_scale", first) != first):
        return replace(progress, loss_scale=first)
    return progress


def _start_from(source: str, different: list[ChangedKey]) -> str:
    """Return how the new run starts from the weights of the checkpoint, if it has the same model and tokenizer."""
    if any(each.key.startswith(("model", "variant", "the ")) for each in different):
        return ""
    return f". With `checkpoint.start_from: {source}`, it starts from these weights"
