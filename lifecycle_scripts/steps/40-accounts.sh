#!/usr/bin/env bash
# The teams of the platform file as Slurm's accounts, QOS and settings, on the controller: now, and with every change of the
# file while the controller lives.
#   ACCOUNTS_WAIT_SECONDS   how long Slurm's accounting may take to be there (default 240; the step's own limit is above it)
#   ACCOUNTS_RETRY_SECONDS  pause between two tries (default 10)
set -euo pipefail

if [[ "$NODE_ROLE" != controller || -z "$SLURM_ACCOUNTS_S3_URI" ]]; then
  echo "no accounts are kept here, nothing to do"
  exit 0
fi

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Copies: the folder that HyperPod downloaded the scripts into is its own.
installed=/opt/trainway
units=$NODE_ROOT/etc/systemd/system
mkdir -p "$NODE_ROOT$installed" "$units"
install -m 0755 "$scripts/slurm_accounts.sh" "$scripts/slurm_accounts.py" "$NODE_ROOT$installed/"

cat >"$units/trainway-accounts.service" <<EOF
[Unit]
Description=Slurm accounts and QOS of the platform's teams
After=network-online.target slurmctld.service

[Service]
Type=oneshot
ExecStart=/usr/bin/env bash $installed/slurm_accounts.sh $SLURM_ACCOUNTS_S3_URI $SLURM_ACCOUNTS_REGION
TimeoutStartSec=600
EOF
cat >"$units/trainway-accounts.timer" <<'EOF'
[Unit]
Description=Slurm accounts and QOS of the platform's teams, every two minutes

[Timer]
OnActiveSec=2min
OnUnitInactiveSec=2min

[Install]
WantedBy=timers.target
EOF
systemctl daemon-reload

# The teams are in force before the cluster is there to be used. slurmdbd and its database may still be starting.
deadline=$((SECONDS + ${ACCOUNTS_WAIT_SECONDS:-240}))
until systemctl start trainway-accounts.service; do
  if ((SECONDS >= deadline)); then
    echo "the teams are not in force after ${ACCOUNTS_WAIT_SECONDS:-240} s;" \
      "\`journalctl -u trainway-accounts\` on this node says why"
    exit 1
  fi
  sleep "${ACCOUNTS_RETRY_SECONDS:-10}"
done
systemctl enable --now trainway-accounts.timer
echo "the teams are in force, and followed every two minutes"
