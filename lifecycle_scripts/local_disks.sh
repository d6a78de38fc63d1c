#!/usr/bin/env bash
# Mount this node's own NVMe disks as one file system at /opt/dlami/nvme, as the image's service does: now and, as
# trainway-local-disks.service, at each start, because an instance's own disks are empty after a stop.
#
# AWS's Deep Learning images have a service for this, for which AWS's scripts wait. A file system that it has mounted is
# used unchanged. The service may end without mounting one. Then, and on images without the service, the disks become a
# RAID 0, as in EKS's image. It has ext4, which each image can create.
# https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/LifecycleScripts/base-config/utils/install_enroot_pyxis.sh
# https://github.com/aws/aws-parallelcluster-cookbook/blob/develop/cookbooks/aws-parallelcluster-environment/files/setup-ephemeral-drives.sh
# https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2023/runtime/bin/setup-local-disks (all read 2026-11-22)
#   NODE_ROOT                  prefix of every path that is read or written; empty on a node
#   IMAGE_DISKS_WAIT_SECONDS   how long the image's own service may take (default 120)
set -euo pipefail

# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

root=${NODE_ROOT:-}
place=/opt/dlami/nvme
label=trainway-local
array=$root/dev/md/$label

# instance_disks: print the devices that belong to the instance. An EBS volume is an NVMe disk of another model. The
# scripts above identify the disks by the same name in /dev/disk/by-id, which udev creates a little later.
instance_disks() {
  local model
  for model in "$root"/sys/block/nvme*/device/model; do
    if grep --quiet --no-messages '^Amazon EC2 NVMe Instance Storage *$' "$model"; then
      echo "$root/dev/$(basename "$(dirname "$(dirname "$model")")")"
    fi
  done
}

# signatures COLUMN DEVICE: print the signatures on a device. Empty if the device is blank.
signatures() {
  wipefs --noheadings --output "$1" "$2" | paste --serial --delimiters=,
}

# array_of DISK...: create the RAID 0 of these disks, and set `device` to its device.
array_of() {
  device=$array
  mkdir -p "$(dirname "$array")"
  # Without the host's name, which would give the array another name after a restart.
  mdadm --create "$array" --run --level=0 --name="$label" --homehost=any --raid-devices="$#" "$@" ||
    fail "no RAID 0 could be made of $*: the line above says why; replace the node"
  echo "made a RAID 0 of $# disks"
}

# our_device DISK...: set `device` to the device to mount, made of these disks. Empty if there is none.
our_device() {
  local disk kind name members=() blank=()
  device=""
  for disk in "$@"; do
    if ! kind=$(signatures TYPE "$disk") || ! name=$(signatures LABEL "$disk"); then
      fail "$disk cannot be read, so what is on it is unknown: the disk may be broken, replace the node"
    elif [[ -z "$kind" ]]; then
      blank+=("$disk")
    elif [[ "$name" != *"$label"* ]]; then
      echo "$disk is left as it is: it carries $kind, which somebody else put there"
    elif [[ "$kind" == ext4 ]]; then
      device=$disk
    else
      members+=("$disk")
    fi
  done
  if [[ -n "$device" ]]; then
    return
  elif ((${#members[@]})); then
    device=$array
    if [[ -e "$array" ]] || mdadm --assemble --run "$array" "${members[@]}"; then
      return
    fi
    ((${#blank[@]})) || fail "the RAID 0 of ${members[*]} cannot be put together: stop and start the node for blank disks"
    # Its creation was interrupted, so there is no data on it.
    mdadm --zero-superblock "${members[@]}"
    array_of "${members[@]}" "${blank[@]}"
  elif ((${#blank[@]} == 1)); then
    device=${blank[0]}
  elif ((${#blank[@]})) && ! command -v mdadm >/dev/null; then
    echo "this image has no mdadm to make one file system of ${#blank[@]} disks, so that they are not used"
  elif ((${#blank[@]})); then
    array_of "${blank[@]}"
  fi
}

# mount_device: create a file system on `device` if there is none, and mount it.
mount_device() {
  local said
  if [[ -z "$(signatures TYPE "$device")" ]]; then
    # No discard, because an instance gets trimmed disks.
    said=$(mkfs.ext4 -q -L "$label" -m 0 -E nodiscard "$device" 2>&1) ||
      fail "no file system could be made on $device (${said##*$'\n'}): the disk may be broken, replace the node"
    echo "made a file system on $device"
  fi
  mkdir -p "$root$place"
  said=$(mount -t ext4 -o noatime "$device" "$root$place" 2>&1) ||
    fail "$device cannot be mounted at $place (${said##*$'\n'}): the disk may be broken, replace the node"
  echo "mounted $device at $place"
}

main() {
  local disks device
  if ! mountpoint --quiet "$root$place" && systemctl cat dlami-nvme.service >/dev/null 2>&1; then
    # Waits for the service if it is running, and does nothing if it has run.
    timeout "${IMAGE_DISKS_WAIT_SECONDS:-120}" systemctl start dlami-nvme.service ||
      echo "the image's dlami-nvme.service failed or is not done after ${IMAGE_DISKS_WAIT_SECONDS:-120} s"
  fi
  if ! mountpoint --quiet "$root$place"; then
    mapfile -t disks < <(instance_disks)
    if ((${#disks[@]} == 0)); then
      echo "this instance has no NVMe disks of its own, nothing to do"
      return
    fi
    our_device "${disks[@]}"
    if [[ -z "$device" ]]; then
      echo "none of ${#disks[@]} NVMe disks can be used: containers and scratch stay on the node's volumes"
      return
    fi
    mount_device
  fi
  # The mode that the image's service sets.
  { chmod 1777 "$root$place" && scratch_layout "$root$place"; } 2>/dev/null ||
    fail "$place cannot be written: \`dmesg\` on this node says what is wrong with its disks; replace the node"
  echo "$place is there, with $(df --output=avail --block-size=G "$root$place" | tail -n 1 | tr -d ' G') GiB free"
}

main
