#!/usr/bin/env bash
# The Slurm daemon of this node's role. Under OnInitComplete HyperPod has configured and started it, so that it is only
# verified; under OnCreate it is started.
#   SLURM_WAIT_SECONDS   how long the daemon may take (default 120)
set -euo pipefail

if [[ "$ORCHESTRATOR" != hyperpod-slurm ]]; then
  echo "no Slurm on this cluster, nothing to do"
  exit 0
fi

case $NODE_ROLE in
  controller) daemon=slurmctld ;;
  compute) daemon=slurmd ;;
  *)
    echo "a $NODE_ROLE node runs no Slurm daemon, nothing to do"
    exit 0
    ;;
esac

if [[ "$SLURM_STARTED_BY" == script ]] && ! systemctl is-active --quiet "$daemon"; then
  if [[ "$daemon" == slurmd ]]; then
    # A worker fetches its configuration from the controller; the image's unit takes the address from this variable.
    [[ -n "$CONTROLLER_ADDRESSES" ]] || {
      echo "the resource config names no controller to take slurm.conf from"
      exit 1
    }
    directory=$NODE_ROOT/etc/systemd/system/slurmd.service.d
    mkdir -p "$directory"
    printf '[Service]\nEnvironment="SLURMD_OPTIONS=--conf-server %s"\n' "$CONTROLLER_ADDRESSES" >"$directory/90-trainway.conf"
    systemctl daemon-reload
  fi
  systemctl enable --now "$daemon"
  echo "started $daemon"
fi

deadline=$((SECONDS + ${SLURM_WAIT_SECONDS:-120}))
until systemctl is-active --quiet "$daemon"; do
  if ((SECONDS >= deadline)); then
    echo "$daemon is not active after ${SLURM_WAIT_SECONDS:-120} s; \`journalctl -u $daemon\` on this node says why"
    exit 1
  fi
  sleep 1
done
echo "$daemon is active"
