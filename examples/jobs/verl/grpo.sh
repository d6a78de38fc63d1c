#!/usr/bin/env bash
# The driver of GRPO, which runs on the first node. Its relative default for checkpoints would be lost with the node.
set -euo pipefail
exec python3 -m verl.trainer.main_ppo \
  algorithm.adv_estimator=grpo \
  data.train_files="$TRAINWAY_INPUT_DATA/train.parquet" \
  data.val_files="$TRAINWAY_INPUT_DATA/test.parquet" \
  data.train_batch_size=1024 \
  data.max_prompt_length=512 \
  data.max_response_length=1024 \
  actor_rollout_ref.model.path="$TRAINWAY_INPUT_MODEL" \
  actor_rollout_ref.actor.ppo_mini_batch_size=256 \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \
  actor_rollout_ref.actor.use_kl_loss=True \
  actor_rollout_ref.rollout.name=vllm \
  actor_rollout_ref.rollout.n=5 \
  actor_rollout_ref.rollout.tensor_model_parallel_size=2 \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \
  actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8 \
  trainer.nnodes="$TRAINWAY_NODES" \
  trainer.n_gpus_per_node="$TRAINWAY_GPUS_PER_NODE" \
  trainer.default_local_dir="$TRAINWAY_OUTPUT/checkpoints" \
  trainer.resume_mode=auto \
  trainer.save_freq=20 \
  trainer.test_freq=20 \
  trainer.total_epochs=15 \
  'trainer.logger=[console]'
