#!/usr/bin/env bash
# The teams of the platform file as Slurm's accounts, QOS and settings, on the controller: now, and with every change of the
# file while the controller lives.
#   ACCOUNTS_WAIT_SECONDS   how long Slurm's accounting may take to be there (default 240; the step's own limit is above it)
#   ACCOUNTS_RETRY_SECONDS  pause between two tries (default 10)
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

if [[ "$NODE_ROLE" != controller || -z "$SLURM_ACCOUNTS_S3_URI" ]]; then
  echo "no accounts are kept here, nothing to do"
  exit 0
fi

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Copy the files, because the folder that HyperPod downloaded the scripts into is its own.
installed=/opt/trainway
units=$NODE_ROOT/etc/systemd/system
changed=
for file in slurm_accounts.sh slurm_accounts.py slurm_settings.py; do
  ! write_file "$NODE_ROOT$installed/$file" 0755 <"$scripts/$file" || changed=1
done

! write_file "$units/trainway-accounts.service" 0644 <<EOF || changed=1
[Unit]
Description=Slurm accounts and QOS of the platform's teams
After=network-online.target slurmctld.service

[Service]
Type=oneshot
ExecStart=/usr/bin/env bash $installed/slurm_accounts.sh $SLURM_ACCOUNTS_S3_URI $SLURM_ACCOUNTS_REGION
TimeoutStartSec=600
EOF
! write_file "$units/trainway-accounts.timer" 0644 <<'EOF' || changed=1
[Unit]
Description=Slurm accounts and QOS of the platform's teams, every two minutes

[Timer]
OnActiveSec=2min
OnUnitInactiveSec=2min

[Install]
WantedBy=timers.target
EOF
[[ -z "$changed" ]] || systemctl daemon-reload

# The teams must be in force before the cluster is used. slurmdbd and its database may still be starting.
limit=${ACCOUNTS_WAIT_SECONDS:-240}
wait_until "$limit" "${ACCOUNTS_RETRY_SECONDS:-10}" systemctl start trainway-accounts.service ||
  fail "the teams are not in force after $limit s; \`journalctl -u trainway-accounts\` on this node says why"
systemctl enable --quiet --now trainway-accounts.timer
echo "the teams are in force, and followed every two minutes"
