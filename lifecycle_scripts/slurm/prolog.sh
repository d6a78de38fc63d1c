#!/usr/bin/env bash
# Slurm's prolog: whether the node is fit for the job that is about to begin. Slurm brings this file to the nodes with its
# configuration, possibly before lifecycle scripts have run there.
installed=/opt/trainway/slurm
[[ -e "$installed/expected.json" ]] || exit 0
exec python3 "$installed/node_checks.py" prolog
