"""Pretrain a GPT with Megatron-Bridge, by its recipe of the Megatron-LM defaults. Arguments are key=value overrides."""

import sys

from megatron.bridge.recipes.gpt.vanilla_gpt import vanilla_gpt_pretrain_config
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.pretrain import pretrain
from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides


def main() -> None:
    """Train as one rank of torchrun."""
    config = process_config_with_overrides(vanilla_gpt_pretrain_config(), cli_overrides=sys.argv[1:])
    config.checkpoint.load = config.checkpoint.save
    pretrain(config, forward_step)


if __name__ == "__main__":
    main()
