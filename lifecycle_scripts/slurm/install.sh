#!/usr/bin/env bash
# Install the scripts that Slurm runs around a job: install.sh PARAMETERS
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$here/../lib.sh"

installed=${NODE_ROOT:-}/opt/trainway/slurm
changed=
put() {
  if write_file "$installed/$1" 0755; then
    changed=1
  fi
}
for file in prolog.sh epilog.sh health.sh job_walls.py leftovers.py node_checks.py; do
  put "$file" <"$here/$file"
done
# Write the expectations of the checks last: without them, no checks run.
parameters=$(python3 "$here/../node_facts.py" --parameters "$1" 2>&1) || fail "$parameters"
put expected.json < <(python3 "$here/node_checks.py" expect "$INSTANCE_TYPE" "$FSX_MOUNT_PATH" <<<"$parameters")
walls=${SLURM_JOB_WALLS:-true}
if [[ "$walls" == true ]] && ! said=$(python3 "$here/job_walls.py" check 2>&1); then
  [[ "$SLURM_JOB_WALLS" != true ]] || fail "$said"
  # A prolog that fails everywhere would drain all nodes. steps/34-job-walls.sh warns.
  walls=false
fi
# The files by which the scripts know what the platform has chosen.
choose() {
  if [[ "$2" == "$3" ]]; then
    put "$1" </dev/null
  else
    rm -f "$installed/$1"
  fi
}
choose no-health-checks "$SLURM_HEALTH_CHECKS" false
choose job-walls "$walls" true
choose login-needs-job "$SLURM_LOGIN_NEEDS_JOB" true
[[ -z "$changed" ]] || echo "installed the prolog, the epilog and the health check"
