#!/usr/bin/env bash
# FSx for Lustre at its mount path: waits for it, mounts it where that is ours to do, and proves that it can be written.
#   LUSTRE_WAIT_SECONDS   how long the mount may take (default 240; the step's own limit is above it)
#   LUSTRE_RETRY_SECONDS  pause between two tries (default 5)
set -euo pipefail

if [[ -z "$FSX_DNS_NAME" ]]; then
  echo "no file system for the node itself, nothing to do"
  exit 0
fi

source=$FSX_DNS_NAME@tcp:/$FSX_MOUNT_NAME
target=$NODE_ROOT$FSX_MOUNT_PATH
deadline=$((SECONDS + ${LUSTRE_WAIT_SECONDS:-240}))
entry="$source $FSX_MOUNT_PATH lustre noatime,flock,_netdev,x-systemd.requires=network-online.target 0 0"

if [[ "$FSX_MOUNTED_BY" == script ]]; then
  mkdir -p "$target"
  # A restarted node mounts it again without this script.
  if ! grep -qsxF "$entry" "$NODE_ROOT/etc/fstab"; then
    mkdir -p "$NODE_ROOT/etc"
    echo "$entry" >>"$NODE_ROOT/etc/fstab"
    echo "added $FSX_MOUNT_PATH to fstab"
  fi
fi

last="nothing was tried"
until mountpoint -q "$target"; do
  if ((SECONDS >= deadline)); then
    echo "$FSX_MOUNT_PATH is not mounted after ${LUSTRE_WAIT_SECONDS:-240} s ($last);" \
      "check the security group (988, 1018-1023), the zone and DNS of $FSX_DNS_NAME"
    exit 1
  fi
  if [[ "$FSX_MOUNTED_BY" == script ]]; then
    # Name resolution restarts while a node is provisioned, so the first tries may fail.
    if last=$(timeout 60 mount -t lustre -o noatime,flock "$source" "$target" 2>&1); then
      echo "mounted $source at $FSX_MOUNT_PATH"
      continue
    fi
    last=$(tail -n 1 <<<"$last")
  else
    last="HyperPod has not mounted it"
  fi
  sleep "${LUSTRE_RETRY_SECONDS:-5}"
done

# A mount whose storage servers cannot be reached looks mounted and hangs at the first write.
probe=$target/.trainway-$(hostname)
# shellcheck disable=SC2016 # expanded by the inner shell
if ! error=$(timeout 60 bash -c 'echo written >"$1" && [[ "$(<"$1")" == written ]] && rm "$1"' - "$probe" 2>&1); then
  # Under root squash this is an answer; that all storage servers give theirs shows in what they have left.
  if [[ "$error" == *"Permission denied"* ]] && timeout 60 df "$target" >/dev/null; then
    echo "$FSX_MOUNT_PATH is mounted, and root may not write to it"
    exit 0
  fi
  echo "$FSX_MOUNT_PATH is mounted but cannot be written within 60 s: ${error:-no answer}"
  exit 1
fi
echo "$FSX_MOUNT_PATH is mounted and writable"
