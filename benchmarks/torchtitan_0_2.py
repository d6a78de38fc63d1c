"""Train the first eight layers of torchtitan 0.2.2's Llama 3 8B, for machines with the PyTorch of that release.

torchtitan_llama.py is the same for 0.3.0, which has other interfaces. `options` has the settings. They are torchtitan's
fastest for one GPU, except those that make the work equal: eight layers, no activation checkpointing, no evaluation, no
checkpoints, and random tokens in memory.
"""

import argparse
import dataclasses
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

if importlib.util.find_spec("datasets") is None:
    # torchtitan imports `datasets` for loaders of text, which random tokens do not use. It would install 150 MB.
    for missing, names in {
        "datasets": ["Dataset", "load_dataset"],
        "datasets.distributed": ["split_dataset_by_node"],
    }.items():
        sys.modules[missing] = ModuleType(missing)
        sys.modules[missing].__dict__.update(dict.fromkeys(names, object))

from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.config import ConfigManager
from torchtitan.models.llama3 import get_train_spec
from torchtitan.protocols.train_spec import TrainSpec, register_train_spec
from torchtitan.tools.logging import init_logger
from torchtitan.train import Trainer

LAYERS, VOCABULARY = 8, 128_256
NAME = "llama3_eight_layers"


class RepeatedTokens(BaseDataLoader):  # type: ignore[misc]
    """A data loader that repeats one batch of random tokens."""

    def __init__(self, length: int) -> None:
        tokens = torch.randint(0, VOCABULARY, (1, length + 1))
        self._inputs, self._labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def __iter__(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        while True:
            # A new dictionary, because the trainer puts tensors of the device into it.
            yield {"input": self._inputs}, self._labels

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


def options(length: int, compiled: bool, recipe: str | None) -> list[str]:
    """Return torchtitan's command line for samples of `length` tokens. `recipe` is that of float8, or None for bf16."""
    words = [f"--model.name={NAME}", "--model.flavor=8B", f"--training.seq_len={length}", "--training.steps=1000000"]
    words += ["--training.local_batch_size=1", "--activation_checkpoint.mode=none"]
    words += ["--metrics.log_freq=5", "--metrics.disable_color_printing"]
    if compiled:
        words += ["--compile.enable", "--compile.components=model,loss"]
    if recipe:
        # As in ours, the output projection keeps bf16.
        words += ["--model.converters=quantize.linear.float8", "--quantize.linear.float8.filter_fqns=output"]
        words += [f"--quantize.linear.float8.recipe_name={recipe}"]
    return words


def spec() -> TrainSpec:
    """Return torchtitan's own Llama 3 8B with eight layers, random tokens, and no tokenizer."""
    given = get_train_spec()
    return dataclasses.replace(
        given,
        model_args={"8B": dataclasses.replace(given.model_args["8B"], n_layers=LAYERS)},
        build_dataloader_fn=lambda *, job_config, **_: RepeatedTokens(job_config.training.seq_len),
        build_tokenizer_fn=None,
        build_validator_fn=None,
    )


def main() -> None:
    """Run torchtitan's trainer until killed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torchtitan_0_2", description=__doc__)
    parser.add_argument("--length", type=int, required=True, help="tokens of a sample")
    parser.add_argument("--compile", action="store_true", help="compile the layers and the loss")
    parser.add_argument("--float8", metavar="RECIPE", help="for example rowwise; without it, bf16")
    parser.add_argument("--folder", required=True, help="directory for what torchtitan writes")
    chosen = parser.parse_args()
    words = [*options(chosen.length, chosen.compile, chosen.float8), f"--job.dump_folder={chosen.folder}"]
    init_logger()
    register_train_spec(NAME, spec())
    Trainer(ConfigManager().parse_args(words)).train()


if __name__ == "__main__":
    main()
