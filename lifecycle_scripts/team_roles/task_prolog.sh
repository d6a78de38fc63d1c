#!/bin/sh
# Slurm's task prolog: give each task the credentials of the team that is its job's account. The SDKs of AWS ask this address
# (credentials.py). https://slurm.schedmd.com/prolog_epilog.html (read 2026-11-26)
if [ -e "$(dirname "$0")/teams.json" ] && [ -n "${SLURM_JOB_ACCOUNT-}" ]; then
  echo "export AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:491/$SLURM_JOB_ACCOUNT"
fi
