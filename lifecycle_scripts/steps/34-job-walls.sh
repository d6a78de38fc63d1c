#!/usr/bin/env bash
# The walls around jobs while no job runs: rules of nftables, which the prolog and the epilog change with each job. By
# default, a node that cannot have them runs jobs without them. With `slurm.job_walls: true`, 30-slurm.sh fails there.
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

installed=/opt/trainway/slurm
service=trainway-job-walls.service
unit=$NODE_ROOT/etc/systemd/system/$service

if [[ "$ORCHESTRATOR" != hyperpod-slurm || "$NODE_ROLE" != compute ]]; then
  echo "no compute node of Slurm's, nothing to do"
  exit 0
fi
if [[ "$SLURM_JOB_WALLS" == false ]]; then
  if [[ -e "$unit" ]]; then
    systemctl disable --quiet --now "$service"
    rm -f "$unit"
    systemctl daemon-reload
  fi
  echo "slurm.job_walls is false, and jobs accept connections from everywhere"
  exit 0
fi
if [[ ! -e "$NODE_ROOT$installed/job-walls" ]]; then
  said=$(python3 "$NODE_ROOT$installed/job_walls.py" check 2>&1) || true
  echo "WARNING: jobs on this node accept connections from everywhere: ${said:-the check failed earlier; replace the node}"
  exit 0
fi
# After slurmd, which may fetch slurm.conf. Until then, no job has begun.
write_file "$unit" 0644 <<EOF && systemctl daemon-reload
[Unit]
Description=Walls around the jobs of Slurm
After=slurmd.service network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/env python3 $installed/job_walls.py start
ExecStop=/usr/bin/env nft delete table inet trainway_jobs
Restart=on-failure
RestartSec=10

[Install]
WantedBy=multi-user.target
EOF
systemctl enable --quiet "$service"
systemctl start "$service" || fail "$service does not start: \`journalctl -u $service\` says why"
echo "only the nodes and the users of jobs connect to the ports of jobs"
