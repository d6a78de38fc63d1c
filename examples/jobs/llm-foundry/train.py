"""Train with MosaicML's llm-foundry, by the YAML file that the first argument names."""

import sys

from llmfoundry.command_utils import train_from_yaml

if __name__ == "__main__":
    train_from_yaml(sys.argv[1], sys.argv[2:])
