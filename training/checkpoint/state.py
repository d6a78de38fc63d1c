"""What a checkpoint holds."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

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
    """Samples seen by all ranks; the whole state of the data."""
    loss: float
    """Loss of the last step."""
    loss_scale: float = 1.0
    """The factor on the loss of the next step; 1 but in fp16."""


def state_of(
    model: Decoder, optimizer: torch.optim.Optimizer, progress: Progress, identity: dict[str, Any]
) -> StateDict:
    """The state of this rank. Its tensors are those that training changes, not copies.

    `identity` is what may not change between a save and a resume.
    """
    weights, moments = get_state_dict(model, optimizer)
    run = asdict(progress) | {"identity": json.dumps(identity, sort_keys=True)}
    return {"model": weights, "optimizer": moments, "run": run}


def fill(model: Decoder, optimizer: torch.optim.Optimizer, state: StateDict) -> None:
    """Gives the model and the optimizer what is in `state`."""
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


def progress_in(run: dict[str, Any], identity: dict[str, Any], source: str) -> Progress:
    """The progress in the `run` of a state from `source`.

    Raises:
        UserError: the checkpoint is of another run; the message says in what they differ.
    """
    saved = json.loads(run["identity"])
    different = [f"{key} was {saved.get(key)}, is {now}" for key, now in identity.items() if saved.get(key) != now]
    if different:
        raise UserError(
            f"{source} is a checkpoint of another run: {'; '.join(different)}. "
            "Give the job another name or checkpoint.location, or delete the old checkpoints"
        )
    return Progress(**{key: value for key, value in run.items() if key != "identity"})
