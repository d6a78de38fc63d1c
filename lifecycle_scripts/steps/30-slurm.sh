#!/usr/bin/env bash
# Slurm, as far as the node's role has it. Under OnInitComplete HyperPod has configured and started it: it is verified, and
# what is the platform's added. Under OnCreate all of it is done here.
#   SLURM_WAIT_SECONDS   how long each of the things that are waited for may take (default 120)
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

if [[ "$ORCHESTRATOR" != hyperpod-slurm ]]; then
  echo "no Slurm on this cluster, nothing to do"
  exit 0
fi

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
limit=${SLURM_WAIT_SECONDS:-120}
slurm=/opt/slurm
export PATH=$PATH:$slurm/bin:$slurm/sbin
parameters=$scripts/parameters.json

case $NODE_ROLE in
  controller) daemon=slurmctld ;;
  compute) daemon=slurmd ;;
  *) daemon= ;;
esac

# HyperPod runs slurmd on login nodes as well, for their commands.
if [[ "$NODE_ROLE" != controller ]]; then
  bash "$scripts/slurm/install.sh" "$parameters"
fi
if [[ "$SLURM_STARTED_BY" == script ]]; then
  bash "$scripts/slurm/provision.sh" "$parameters"
fi
if [[ -z "$daemon" ]]; then
  echo "a $NODE_ROLE node runs no Slurm daemon, nothing to do"
  exit 0
fi
wait_until "$limit" 1 systemctl is-active --quiet "$daemon" ||
  fail "$daemon is not active after $limit s; \`journalctl -u $daemon\` on this node says why"
if [[ "$NODE_ROLE" == controller ]]; then
  bash "$scripts/slurm/platform_settings.sh" "$parameters"
fi
echo "$daemon is active"
