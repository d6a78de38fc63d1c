#!/usr/bin/env bash
# Under OnInitComplete, Slurm knows this node before it is ready. Hold jobs back until all steps are done.
set -euo pipefail

if [[ "$ORCHESTRATOR" != hyperpod-slurm || "$NODE_ROLE" != compute || "$SLURM_STARTED_BY" == script ]]; then
  echo "Slurm does not have this node yet, nothing to do"
  exit 0
fi
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$scripts/slurm/jobs.sh" hold
