# shellcheck shell=bash
# Where containers keep what is large. Sourced after lib.sh, never run.

# container_place: prints the directory of the disk for it, which has scratch_layout.
container_place() {
  local place=${NODE_ROOT:-}/opt/trainway/scratch each
  if [[ "$ORCHESTRATOR" == hyperpod-slurm ]]; then
    for each in /opt/dlami/nvme /opt/sagemaker; do
      if mountpoint --quiet "${NODE_ROOT:-}$each"; then
        place=${NODE_ROOT:-}$each
        break
      fi
    done
  # HyperPod's second volume, as in AWS's own script, and not the instance's disks: they are empty after a stop, and what the
  # image brought for kubelet is nowhere else. It may still be being mounted.
  # https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/7.sagemaker-hyperpod-eks/LifecycleScripts/base-config/on_create_main.sh
  # (read 2026-11-22)
  elif wait_until "${VOLUME_WAIT_SECONDS:-60}" 1 mountpoint --quiet "${NODE_ROOT:-}/opt/sagemaker"; then
    place=${NODE_ROOT:-}/opt/sagemaker
  fi
  scratch_layout "$place" || return 1
  echo "$place"
}
