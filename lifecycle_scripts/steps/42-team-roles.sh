#!/usr/bin/env bash
# The role of a team for each job and each shell, in place of the role of the node: a service that gives members of a team
# its credentials, and a wall around the metadata service.
#   TEAM_ROLES_WAIT_SECONDS   how long fetching the teams may take (default 120)
#   TEAM_ROLES_RETRY_SECONDS  pause between two tries (default 5)
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

if [[ "$SLURM_TEAM_ROLES" != true || -z "$SLURM_ACCOUNTS_S3_URI" ]]; then
  echo "all jobs have the role of the node, nothing to do"
  exit 0
fi
command -v nft >/dev/null ||
  fail "there is no nft for the wall around the metadata service: add the package nftables to the image, or set" \
    "storage.bucket.team_prefixes to false"

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Copy the files, because the folder that HyperPod downloaded the scripts into is its own.
installed=/opt/trainway/team-roles
units=$NODE_ROOT/etc/systemd/system
changed=
for file in credentials.py follow.py follow.sh task_prolog.sh; do
  ! write_file "$NODE_ROOT$installed/$file" 0755 <"$scripts/team_roles/$file" || changed=1
done
put_file "$NODE_ROOT/etc/profile.d/trainway-team-roles.sh" 0644 <"$scripts/team_roles/profile.sh"
# One node is enough for the directories of teams on the file system.
file_system=
[[ "$NODE_ROLE" != controller ]] || file_system=$FSX_MOUNT_PATH

! write_file "$units/trainway-credentials.socket" 0644 <<'EOF' || changed=1
[Unit]
Description=Credentials of the platform's teams

[Socket]
ListenStream=127.0.0.1:491
Backlog=1024

[Install]
WantedBy=sockets.target
EOF
! write_file "$units/trainway-credentials.service" 0644 <<EOF || changed=1
[Unit]
Description=Credentials of the platform's teams

[Service]
ExecStart=/usr/bin/env python3 $installed/credentials.py $installed/teams.json $SLURM_ACCOUNTS_REGION
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin AWS_STS_REGIONAL_ENDPOINTS=regional
Restart=on-failure
CapabilityBoundingSet=
NoNewPrivileges=yes
PrivateTmp=yes
ProtectHome=read-only
ProtectSystem=strict
EOF
# Before jobs begin and users log in, also after a restart of the node. trainway-team-roles keeps the rules current.
! write_file "$units/trainway-metadata-wall.service" 0644 <<EOF || changed=1
[Unit]
Description=Wall around the metadata service
Before=slurmd.service ssh.service

[Service]
Type=oneshot
ExecStart=/usr/bin/env nft --file $installed/wall.nft

[Install]
WantedBy=multi-user.target
EOF
! write_file "$units/trainway-team-roles.service" 0644 <<EOF || changed=1
[Unit]
Description=Roles of the platform's teams
After=network-online.target remote-fs.target

[Service]
Type=oneshot
ExecStart=/usr/bin/env bash $installed/follow.sh $SLURM_ACCOUNTS_S3_URI $SLURM_ACCOUNTS_REGION $file_system
TimeoutStartSec=600
EOF
! write_file "$units/trainway-team-roles.timer" 0644 < <(two_minute_timer "Roles of the platform's teams") || changed=1
if [[ -n "$changed" ]]; then
  systemctl daemon-reload
  # The socket keeps the connections meanwhile.
  systemctl try-restart trainway-credentials.service
fi

# No job may begin with the role of the node.
limit=${TEAM_ROLES_WAIT_SECONDS:-120}
wait_until "$limit" "${TEAM_ROLES_RETRY_SECONDS:-5}" systemctl start trainway-team-roles.service ||
  fail "jobs would have the role of the node after $limit s; \`journalctl -u trainway-team-roles\` on this node says why"
systemctl enable --quiet trainway-metadata-wall.service
systemctl enable --quiet --now trainway-credentials.socket trainway-team-roles.timer
echo "each job has the role of its team, and only root has that of the node"
