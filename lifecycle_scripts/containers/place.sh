# shellcheck shell=bash
# The directory for large files of containers. Sourced after lib.sh, never run.

# container_place: print the directory on the large disk, with scratch_layout.
container_place() {
  local place=${NODE_ROOT:-}/opt/trainway/scratch each
  if [[ "$ORCHESTRATOR" == hyperpod-slurm ]]; then
    for each in /opt/dlami/nvme /opt/sagemaker; do
      if mountpoint --quiet "${NODE_ROOT:-}$each"; then
        place=${NODE_ROOT:-}$each
        break
      fi
    done
  # This is HyperPod's second volume, as in AWS's own script, not the instance's disks: those are empty after a stop,
  # and the image's content for kubelet exists nowhere else. It may not be mounted yet.
  # https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/7.sagemaker-hyperpod-eks/LifecycleScripts/base-config/on_create_main.sh
  # (read 2026-11-22)
  elif wait_until "${VOLUME_WAIT_SECONDS:-60}" 1 mountpoint --quiet "${NODE_ROOT:-}/opt/sagemaker"; then
    place=${NODE_ROOT:-}/opt/sagemaker
  fi
  scratch_layout "$place" || return 1
  echo "$place"
}
