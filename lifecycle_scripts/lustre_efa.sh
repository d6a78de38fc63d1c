#!/usr/bin/env bash
# Lets this node reach FSx for Lustre over EFA too, now and after each restart: lustre_efa.sh INTERFACES
# Lustre then prefers the EFA interfaces, and keeps TCP for finding its servers and for nodes that have nothing else.
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/configure-efa-clients.html
# https://docs.aws.amazon.com/eks/latest/userguide/fsx-csi-tuning-efa.html (both read 2026-11-21)
#   NODE_ROOT   prefix of every path that is read or written; empty on a node
set -euo pipefail

wanted=${1:?how many EFA interfaces}
root=${NODE_ROOT:-}
installed=/opt/trainway/lustre_efa.sh

if ! command -v lnetctl >/dev/null || ! modinfo kefalnd >/dev/null 2>&1; then
  echo "the Lustre client of this image has no EFA, so the file system is reached over TCP"
  exit 0
fi

devices=()
for device in "$root"/sys/class/infiniband/*; do
  if [[ $(basename "$(readlink -f "$device/device/driver")") == efa ]]; then
    devices+=("$(basename "$device")")
  fi
done
if ((${#devices[@]} < wanted)); then
  echo "this node has ${#devices[@]} EFA devices, and $wanted were to be used for Lustre: replace the node"
  exit 1
fi

# Not sourced from lib.sh: nodes of EKS have this file alone, from their user data.
unit=$root/etc/systemd/system/trainway-lustre-efa.service
wanted_unit="[Unit]
Description=Lustre over EFA
After=network-online.target
Wants=network-online.target
Before=remote-fs-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/env bash $installed $wanted

[Install]
WantedBy=multi-user.target"
cmp --silent "$0" "$root$installed" || install -D -m 0755 "$0" "$root$installed"
if [[ "$(cat "$unit" 2>/dev/null)" != "$wanted_unit" ]]; then
  mkdir -p "$(dirname "$unit")"
  echo "$wanted_unit" >"$unit.new"
  mv "$unit.new" "$unit"
  systemctl daemon-reload
fi
# Enabled only when all is there: a run that was cut short is made good by the next.
systemctl is-enabled --quiet trainway-lustre-efa.service || systemctl enable trainway-lustre-efa.service

outward=$(ip -o -4 route show default | awk '{print $5; exit}')
modprobe lnet
modprobe kefalnd "ipif_name=$outward"
modprobe ksocklnd
lnetctl lnet configure
# LNet takes every interface for TCP by itself. What is mounted already stays as it is.
if ! grep -qs ' lustre ' "$root/proc/mounts"; then
  lnetctl net del --net tcp 2>/dev/null || true
  lnetctl net add --net tcp --if "$outward"
fi
there=$(lnetctl net show --net efa 2>/dev/null || true)
for ((number = 0; number < wanted; number++)); do
  # Evenly over all of them: devices that follow each other share a PCIe bus.
  device=${devices[$((number * ${#devices[@]} / wanted))]}
  if ! grep -qw "$device" <<<"$there"; then
    lnetctl net add --net efa --if "$device" --peer-credits 32
  fi
done
lnetctl set discovery 1
if ! lnetctl udsp show 2>/dev/null | grep -q efa; then
  lnetctl udsp add --src efa --priority 0
fi
echo "Lustre uses $wanted of ${#devices[@]} EFA devices"
