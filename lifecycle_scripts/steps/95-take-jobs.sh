#!/usr/bin/env bash
# The counterpart of 05-hold-jobs: this node is ready, and jobs may begin on it.
set -euo pipefail

if [[ "$ORCHESTRATOR" != hyperpod-slurm || "$NODE_ROLE" != compute || "$SLURM_STARTED_BY" == script ]]; then
  echo "Slurm has not had this node before it was ready, nothing to do"
  exit 0
fi
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$scripts/slurm/jobs.sh" release
