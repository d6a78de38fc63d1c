#!/usr/bin/env bash
# Use Lustre over EFA on the nodes of the platform's plan. A file system that HyperPod has already mounted stays on TCP
# until its servers are found over EFA.
set -euo pipefail

if ((LUSTRE_EFA_INTERFACES == 0)); then
  echo "the file system is reached over TCP, nothing to do"
  exit 0
fi
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$scripts/lustre_efa.sh" "$LUSTRE_EFA_INTERFACES"
