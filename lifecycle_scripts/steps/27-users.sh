#!/usr/bin/env bash
# The users of the platform file: now, and with every change of the file while the node lives. And a command of theirs.
#   USERS_WAIT_SECONDS   how long fetching them may take (default 120)
#   USERS_RETRY_SECONDS  pause between two tries (default 5)
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

if [[ -z "$SLURM_USERS_S3_URI" ]]; then
  echo "no users are kept here, nothing to do"
  exit 0
fi

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Copy the files, because the folder that HyperPod downloaded the scripts into is its own.
installed=/opt/trainway
units=$NODE_ROOT/etc/systemd/system
changed=
for name in users.sh users.py ssh_key.sh; do
  write_file "$NODE_ROOT$installed/$name" 0755 <"$scripts/$name" && changed=1
done
put_file "$NODE_ROOT/usr/local/bin/trainway-venv" 0755 <"$scripts/venv.sh"

write_file "$units/trainway-users.service" 0644 <<EOF && changed=1
[Unit]
Description=Accounts of the platform's users
After=network-online.target remote-fs.target

[Service]
Type=oneshot
ExecStart=/usr/bin/env bash $installed/users.sh $SLURM_USERS_S3_URI $SLURM_USERS_REGION
TimeoutStartSec=600
EOF
write_file "$units/trainway-users.timer" 0644 < <(two_minute_timer "Accounts of the platform's users") && changed=1
if [[ -n "$changed" ]]; then
  systemctl daemon-reload
fi

# 0: all users exist. 3: all except those that its lines name.
status=0
follow() {
  status=0
  timeout --kill-after=10 120 bash "$NODE_ROOT$installed/users.sh" "$SLURM_USERS_S3_URI" "$SLURM_USERS_REGION" || status=$?
  ((status == 0 || status == 3))
}
wait_until "${USERS_WAIT_SECONDS:-120}" "${USERS_RETRY_SECONDS:-5}" follow ||
  fail "the users are not there after ${USERS_WAIT_SECONDS:-120} s (status $status, the lines above say why);" \
    "the node's role must be let read $SLURM_USERS_S3_URI"
if ! systemctl is-enabled --quiet trainway-users.timer || ! systemctl is-active --quiet trainway-users.timer; then
  systemctl enable --quiet --now trainway-users.timer
fi
if ((status == 3)); then
  # All other users of the file can work, and one wrong entry must not stop a cluster.
  echo "WARNING: all users exist except those named above; \`journalctl -u trainway-users\` continues to name them"
else
  echo "the users are there, and followed every two minutes"
fi
