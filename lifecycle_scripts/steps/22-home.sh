#!/usr/bin/env bash
# FSx for OpenZFS at /home: wait for it, mount it if the service does not, and copy the homes of the image's users from
# this node's disk, so that everybody who logs in has a home directory.
# https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/LifecycleScripts/base-config/mount_fsx_openzfs.sh
# (read 2026-11-22)
set -euo pipefail

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$scripts/lib.sh"
# shellcheck source=lifecycle_scripts/mounts.sh
source "$scripts/mounts.sh"

if [[ -z "$HOMES_DNS_NAME" ]]; then
  echo "home directories are on each node's own disk, nothing to do"
  exit 0
fi

source=$HOMES_DNS_NAME:/fsx
target=$NODE_ROOT$HOMES_MOUNT_PATH
# The options of AWS's script: a single connection does not use the full bandwidth.
options=nfsvers=4.2,nconnect=16,_netdev
servers="check the security group (111, 2049, 20001-20003) and DNS of $HOMES_DNS_NAME"

if [[ "$HOMES_MOUNTED_BY" == script ]]; then
  mkdir -p "$target"
  in_fstab "$source" "$HOMES_MOUNT_PATH" nfs "$options,x-systemd.requires=network-online.target"
fi
until_mounted "$HOMES_MOUNT_PATH" "$HOMES_MOUNTED_BY" "$servers" mount -t nfs -o "$options" "$source" "$target"
prove_writable "$HOMES_MOUNT_PATH" storage.home.capacity_gib "$servers"

# A bind mount of the node's disk, visible only to this process, shows the directories that the mount hides.
in_time unshare --mount --propagation=private bash -s - "$HOMES_MOUNT_PATH" "$(hostname)" <<'INNER' ||
set -euo pipefail
below=/run/trainway/below
mkdir -p "$below"
mount --bind / "$below"
for home in "$below$1"/*/; do
  name=$(basename "$home")
  if [[ ! -d "$home" || -e "$1/$name" ]]; then
    continue
  fi
  # Renamed when it is complete: several nodes begin at the same time, and the first one wins.
  copy=$1/.$name.$2
  rm -rf "$copy"
  cp --archive "$home" "$copy"
  if mv --no-target-directory "$copy" "$1/$name" 2>/dev/null; then
    echo "$1/$name is there, as this node's disk has it"
  else
    rm -rf "$copy"
  fi
done
INNER
  fail "the homes of the image's own users could not be copied to $HOMES_MOUNT_PATH: the line above says why; $servers"
