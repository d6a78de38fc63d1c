#!/usr/bin/env bash
# FSx for Lustre at its mount path: wait for it, mount it if the service does not, and verify that it is the right file
# system and writable.
set -euo pipefail

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$scripts/lib.sh"
# shellcheck source=lifecycle_scripts/mounts.sh
source "$scripts/mounts.sh"

if [[ -z "$FSX_DNS_NAME" ]]; then
  echo "no file system for the node itself, nothing to do"
  exit 0
fi

source=$FSX_DNS_NAME@tcp:/$FSX_MOUNT_NAME
target=$NODE_ROOT$FSX_MOUNT_PATH
ports="check the security group (988, 1018-1023), the zone and DNS of $FSX_DNS_NAME"

if [[ "$FSX_MOUNTED_BY" == script ]]; then
  mkdir -p "$target"
  # As AWS's own script mounts it, mount_fsx.sh beside the one that 22-home.sh names (read 2026-11-22).
  in_fstab "$source" "$FSX_MOUNT_PATH" lustre noatime,flock,_netdev,x-systemd.requires=network-online.target
fi
until_mounted "$FSX_MOUNT_PATH" "$FSX_MOUNTED_BY" "$ports" mount -t lustre -o noatime,flock "$source" "$target"

# The mount's source is an address, whatever name was used to mount it. The file system keeps its own name. lfs is part
# of the client.
if command -v lfs >/dev/null; then
  name=$(in_time lfs getname -n "$target" 2>/dev/null) || name=""
  [[ "${name%% *}" == "$FSX_MOUNT_NAME" ]] ||
    fail "$FSX_MOUNT_PATH is $(mounted_there "$FSX_MOUNT_PATH"), and not $source: take that mount out of the image or of" \
      "yours/custom.d, and replace the node"
fi
prove_writable "$FSX_MOUNT_PATH" storage.lustre.capacity_tib "$ports"

# open_to_users: users write runs, checkpoints, data, and images there, each user in files of their own. FSx creates the
# directories of data repository associations for root alone. A directory with another owner or mode stays unchanged.
open_to_users() {
  local directory
  for directory in checkpoints corpus images runs; do
    directory=$target/$directory
    mkdir -m 1777 "$directory" 2>/dev/null || [[ -d "$directory" ]] || return 1
    if [[ "$(stat -c %u:%a "$directory")" == 0:755 ]]; then
      chmod 1777 "$directory" || return 1
    fi
  done
}
if [[ "$ORCHESTRATOR" == hyperpod-slurm ]]; then
  export target
  export -f open_to_users
  in_time bash -c open_to_users ||
    echo "WARNING: users may not write below $FSX_MOUNT_PATH, because root of this node may not: make its directories" \
      "checkpoints, corpus, images and runs with mode 1777 on a node that storage.lustre.root_squash.but_not names"
fi
