"""Checkpoints that a library began, did not finish, and would load."""

import shutil
import sys
from pathlib import Path


def set_incomplete_aside(outputs: str) -> None:
    """Rename checkpoints that the Trainer of Hugging Face did not finish, because it would load them and fail.

    It takes the checkpoint of the highest step, looks neither for the file that marks an incomplete one nor for the
    state that it writes last, and so every later start fails: transformers/trainer.py and trainer_jit_checkpoint.py of
    5.23. Its directories are known by a step in the name, and by its arguments, which it saves with each model. A
    directory that it had only begun has none, so those of an earlier checkpoint beside it count, too.
    """
    if "://" in outputs:
        return
    is_trainers = any(Path(outputs).glob("checkpoint-*/training_args.bin"))
    for checkpoint in sorted(Path(outputs).glob("checkpoint-*")):
        marked = (checkpoint / "checkpoint-is-incomplete.txt").exists()
        of_a_step = checkpoint.name.removeprefix("checkpoint-").isdecimal()
        if marked or (is_trainers and of_a_step and not (checkpoint / "trainer_state.json").exists()):
            aside = checkpoint.with_name(f"incomplete-{checkpoint.name}")
            shutil.rmtree(aside, ignore_errors=True)
            checkpoint.rename(aside)
            print(f"trainway: {checkpoint} is incomplete, and is now {aside.name}", file=sys.stderr, flush=True)
