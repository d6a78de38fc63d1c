#!/usr/bin/env bash
# Keep the large directories of Docker, containerd, and kubelet on the node's large disk, by bind mounts that are made
# at each start before these services: engines.sh
# EKS's own image does the same for containerd and kubelet.
# https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2023/runtime/bin/setup-local-disks (read 2026-11-22)
#   NODE_ROOT   prefix of every path that is read or written; empty on a node
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$here/../lib.sh"
# shellcheck source=lifecycle_scripts/containers/place.sh
source "$here/place.sh"
root=${NODE_ROOT:-}

has_unit() {
  systemctl cat "$1" >/dev/null 2>&1
}

# move NAME: keep /var/lib/NAME on the disk from now on. If that is impossible, it stays where it is.
move() {
  local name=$1 directory=/var/lib/$1 kept=$place/$1 unit needed=WantedBy new said
  unit=$(systemd-escape --path --suffix=mount "$directory")
  mkdir -p "$root$directory"
  # Content of the image, such as kubelet's pause image, is copied once. The copy exists completely or not at all.
  if ! mountpoint --quiet "$root$directory" && [[ -z "$(ls -A "$kept" 2>/dev/null)" ]]; then
    new=$place/.$name.new
    rm -rf "$new"
    if ! said=$(cp --archive "$root$directory" "$new" 2>&1 && mv --no-target-directory "$new" "$kept" 2>&1); then
      rm -rf "$new"
      echo "WARNING: $directory cannot be copied to ${place#"$root"} (${said##*$'\n'}) and stays on the node's first volume"
      return
    fi
  fi
  # Images on a lost disk fill the node's own volume. Kubelet starts in any case, because a node without it is lost.
  [[ "$place" == */opt/dlami/nvme ]] && needed=RequiredBy
  # By default a mount comes before local-fs.target, and the disks come after it: a cycle, in which systemd leaves out
  # one unit of its choice at each start.
  write_file "$root/etc/systemd/system/$unit" 0644 <<UNIT && systemctl daemon-reload
[Unit]
Description=$directory on ${place#"$root"}
DefaultDependencies=no
Conflicts=umount.target
Before=umount.target
Wants=trainway-local-disks.service
After=trainway-local-disks.service
Before=docker.service containerd.service kubelet.service
AssertPathIsMountPoint=${place#"$root"}

[Mount]
What=${kept#"$root"}
Where=$directory
Type=none
Options=bind

[Install]
$needed=${runners[*]}
UNIT
  systemctl is-enabled --quiet "$unit" || systemctl --quiet enable "$unit"
  if mountpoint --quiet "$root$directory"; then
    return
  elif systemctl start "$unit"; then
    echo "$directory is on ${place#"$root"}"
  else
    systemctl --quiet disable "$unit"
    echo "WARNING: $directory cannot be mounted from ${kept#"$root"}: \`journalctl -u $unit\` on this node says why"
  fi
}

if [[ "$ORCHESTRATOR" == hyperpod-slurm ]]; then
  names=(docker containerd)
else
  names=(containerd kubelet)
fi
runners=()
for name in "${names[@]}"; do
  has_unit "$name.service" && runners+=("$name.service")
done
if ((${#runners[@]} == 0)); then
  echo "this image has neither Docker nor containerd, nothing to do"
  exit 0
fi

place=$(container_place) || fail "no directories for containers can be made: the disk may be full or broken; replace the node"
changed=false
if [[ " ${runners[*]} " == *" docker.service "* ]]; then
  settings=$(python3 "$here/docker_settings.py" "$root/etc/docker/daemon.json" 2>&1) || {
    echo "WARNING: Docker is left as it is: $settings"
    exit 0
  }
  [[ -z "$settings" ]] || changed=true
fi

moved=()
if [[ "$place" != */opt/trainway/scratch ]]; then
  moved=("${runners[@]%.service}")
fi
for name in "${moved[@]}"; do
  mountpoint --quiet "$root/var/lib/$name" || changed=true
done
# Services that this run or an interrupted one has stopped. A restart starts them itself.
stopped=$root/run/trainway/stopped-engines
if [[ "$changed" == true ]]; then
  if [[ "$ORCHESTRATOR" != hyperpod-slurm ]] && systemctl is-active --quiet kubelet.service; then
    echo "WARNING: kubelet runs already, so that containers stay on the node's first volume"
    exit 0
  fi
  mkdir -p "$(dirname "$stopped")"
  # List all of them before stopping the first, which may stop another.
  running=()
  for runner in docker.socket "${runners[@]}"; do
    systemctl is-active --quiet "$runner" && running+=("$runner")
  done
  if ((${#running[@]})); then
    printf '%s\n' "${running[@]}" >>"$stopped"
    systemctl stop "${running[@]}"
  fi
fi
for name in "${moved[@]}"; do
  move "$name"
done
if [[ -e "$stopped" ]]; then
  while read -r runner; do
    systemctl start "$runner" || echo "WARNING: $runner does not start: \`journalctl -u $runner\` on this node says why"
  done <"$stopped"
  rm "$stopped"
fi
echo "container images are kept in ${place#"$root"}"
