"""Read the weights of a checkpoint without resuming its run: to start another job, or to convert them.

Every rank calls each function.
"""

import json
import re
from typing import Any

from torch.distributed.checkpoint import state_dict_loader
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

from training.checkpoint import Progress, step_location
from training.checkpoint.agreement import first_reason
from training.checkpoint.stored import complete
from training.checkpoint.stores import LoadPlanner, reader
from training.errors import UserError
from training.model.decoder import Decoder


def find(location: str) -> str:
    """Return the resolved location of one checkpoint: `location` itself, or the newest complete one below it.

    Raises:
        UserError: there is no complete checkpoint.
    """
    above, _, name = location.rpartition("/")
    named = re.fullmatch(r"step-(\d{8})", name)
    steps = complete(above if named else location)
    if named and int(named[1]) not in steps:
        there = f"those of the steps {', '.join(map(str, steps))}" if steps else "none"
        raise UserError(f"{location}: this is not a complete checkpoint; {above} has {there}")
    if not steps:
        raise UserError(f"{location}: there is no complete checkpoint here; name a location that has step-… in it")
    return location if named else step_location(location, steps[0])


def describe(source: str) -> tuple[Progress, dict[str, Any]]:
    """Return the progress and the identity of the run that wrote a checkpoint.

    Raises:
        UserError: the checkpoint cannot be read.
    """
    run = Progress(0, 0, 0.0).as_entry()
    _load(source, {"run": run})
    return Progress.of_entry(run), json.loads(run["identity"])


def read(source: str, weights: dict[str, Any]) -> None:
    """Fill tensors from a checkpoint. The keys of `weights` are the names that the model uses.

    Raises:
        UserError: the checkpoint cannot be read.
    """
    _load(source, {"model": weights})


def start(location: str, model: Decoder, identity: dict[str, Any]) -> None:
    """Fill only the model of a new run, from the checkpoint of another run.

    `location` is resolved. `identity` is that of the new run.

    Raises:
        UserError: there is no checkpoint, it cannot be read, or it belongs to another model or tokenizer. The message
            names the differences.
    """
    source = find(location)
    _, saved = describe(source)
    shape, saved_shape = identity["model"], saved["model"]
    different = [
        f"{key} is {saved_shape.get(key)} there and {here} here"
        for key, here in shape.items()
        if here != saved_shape.get(key)
    ]
    if different:
        raise UserError(
            f"checkpoint.start_from: {source} is of another model: {'; '.join(different)}. Change model and variant "
            "of the job, or for the vocabulary prepare the data with the tokenizer of those weights"
        )
    if identity["tokenizer"] != saved["tokenizer"]:
        raise UserError(
            f"checkpoint.start_from: {source} learned the tokens of another tokenizer (its SHA-256 begins "
            f"{saved['tokenizer'][:12]}) than data.train was made with ({identity['tokenizer'][:12]}). Prepare the "
            "data with `python -m training.prepare --tokenizer` and the tokenizer.json of those weights"
        )
    weights = get_model_state_dict(model)
    read(source, weights)
    set_model_state_dict(model, weights)


def _load(source: str, state: dict[str, Any]) -> None:
    try:
        state_dict_loader.load(state, storage_reader=reader(source), planner=LoadPlanner())
    except CheckpointException as error:
        raise UserError(f"{source}: the checkpoint cannot be read: {first_reason(error)}") from error
