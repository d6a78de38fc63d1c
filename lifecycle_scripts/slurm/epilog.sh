#!/usr/bin/env bash
# Slurm's epilog: takes away what the job that has ended left on the node. It comes there as the prolog does.
installed=/opt/trainway/slurm
[[ -e "$installed/expected.json" ]] || exit 0
options=()
if [[ -e "$installed/login-needs-job" ]] && ! PAM_USER=$SLURM_JOB_USER bash "$installed/may_sudo.sh"; then
  options+=(--all)
fi
exec python3 "$installed/leftovers.py" "${options[@]}"
