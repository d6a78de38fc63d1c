#!/usr/bin/env bash
# Slurm's prolog: check that the node can run the job that is about to begin. Slurm sends this file to the nodes with
# its configuration, possibly before lifecycle scripts have run there.
installed=/opt/trainway/slurm
[[ -e "$installed/expected.json" ]] || exit 0
if [[ -e "$installed/job-walls" ]]; then
  if ! said=$(python3 "$installed/job_walls.py" begin 2>&1); then
    # The node could have the rules when it was created, so this is a fault of the node alone.
    python3 "$installed/node_checks.py" drain "$said"
    exit 1
  fi
fi
[[ -e "$installed/no-health-checks" ]] || exec python3 "$installed/node_checks.py" prolog
