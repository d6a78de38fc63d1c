#!/usr/bin/env bash
# MosaicML's launcher on each node. Its rank of a node is not torchrun's, so torchrun cannot replace it.
set -euo pipefail
exec composer --nproc "$TRAINWAY_GPUS_PER_NODE" --world_size "$((TRAINWAY_NODES * TRAINWAY_GPUS_PER_NODE))" \
  --node_rank "$TRAINWAY_NODE_RANK" --master_addr "$TRAINWAY_HEAD" --master_port 29400 \
  train.py mpt-125m.yaml save_folder="$TRAINWAY_OUTPUT" train_loader.dataset.local="$TRAINWAY_INPUT_DATA"
