#!/usr/bin/env bash
# Tell users at login which node they are on and what to do next. It uses a shell profile, because sshd's own message of
# the day is not shown to users who come by Systems Manager and `sudo su - ubuntu`.
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

if [[ "$ORCHESTRATOR" != hyperpod-slurm ]]; then
  echo "nobody works on a node of a Kubernetes cluster, nothing to do"
  exit 0
fi
changed=0
write_file /opt/trainway/motd.py 0644 <"$(dirname "${BASH_SOURCE[0]}")/../motd.py" && changed=1
# Only for interactive users who did not ask for silence. --foreground, so that ^C ends it.
write_file /etc/profile.d/trainway-motd.sh 0644 <<'EOF' && changed=1
case $- in
  *i*) [ -e "$HOME/.hushlogin" ] || timeout --foreground 6 python3 /opt/trainway/motd.py 2>/dev/null || true ;;
esac
EOF
if ((changed)); then
  echo "whoever logs in is told what to do next"
else
  echo "the message is as it should be"
fi
