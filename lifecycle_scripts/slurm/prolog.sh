#!/usr/bin/env bash
# Slurm's prolog: check that the node can run the job that is about to begin. Slurm sends this file to the nodes with
# its configuration, possibly before lifecycle scripts have run there.
installed=/opt/trainway/slurm
[[ -e "$installed/expected.json" ]] || exit 0
exec python3 "$installed/node_checks.py" prolog
