#!/usr/bin/env bash
# Mount the instance's own NVMe disks as one file system at /opt/dlami/nvme, now and after each start.
set -euo pipefail

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$scripts/lib.sh"

# Copy the files, because the folder that HyperPod downloaded the scripts into is its own.
installed=/opt/trainway
changed=false
for file in lib.sh local_disks.sh; do
  write_file "$NODE_ROOT$installed/$file" 0755 <"$scripts/$file" && changed=true
done
write_file "$NODE_ROOT/etc/systemd/system/trainway-local-disks.service" 0644 <<UNIT && changed=true
[Unit]
Description=The NVMe disks of this instance
After=dlami-nvme.service local-fs.target
Before=docker.service containerd.service slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/env bash $installed/local_disks.sh
TimeoutStartSec=280

[Install]
WantedBy=multi-user.target
UNIT
if [[ "$changed" == true ]]; then
  systemctl daemon-reload
fi
# Checkpoints of runs that never resumed on this node. systemd-tmpfiles-clean.timer reads this every day:
# https://www.freedesktop.org/software/systemd/man/latest/tmpfiles.d.html (read 2026-11-29)
put_file "$NODE_ROOT/etc/tmpfiles.d/trainway-local-disks.conf" 0644 <<'TMPFILES'
e /opt/dlami/nvme/jobs/trainway-* - - - 7d
TMPFILES
systemctl is-enabled --quiet trainway-local-disks.service || systemctl --quiet enable trainway-local-disks.service

bash "$scripts/local_disks.sh"
