#!/usr/bin/env bash
# Slurm's epilog: remove what the ended job left on the node. Slurm distributes this file like the prolog.
installed=/opt/trainway/slurm
[[ -e "$installed/expected.json" ]] || exit 0
if [[ -e "$installed/job-walls" ]]; then
  if ! said=$(python3 "$installed/job_walls.py" end 2>&1); then
    # The node could have the rules when it was created, so this is a fault of the node alone.
    python3 "$installed/node_checks.py" drain "$said"
    exit 1
  fi
fi
[[ ! -e "$installed/no-health-checks" ]] || exit 0
options=()
if [[ -e "$installed/login-needs-job" ]] && ! PAM_USER=$SLURM_JOB_USER bash "$installed/may_sudo.sh"; then
  options+=(--all)
fi
exec python3 "$installed/leftovers.py" "${options[@]}"
