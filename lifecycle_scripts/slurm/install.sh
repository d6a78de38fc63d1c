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
for file in prolog.sh epilog.sh health.sh leftovers.py node_checks.py; do
  put "$file" <"$here/$file"
done
# Write the expectations of the checks last: without them, no checks run.
parameters=$(python3 "$here/../node_facts.py" --parameters "$1" 2>&1) || fail "$parameters"
put expected.json < <(python3 "$here/node_checks.py" expect "$INSTANCE_TYPE" "$FSX_MOUNT_PATH" <<<"$parameters")
if [[ "$SLURM_LOGIN_NEEDS_JOB" == true ]]; then
  put login-needs-job </dev/null
else
  rm -f "$installed/login-needs-job"
fi
[[ -z "$changed" ]] || echo "installed the prolog, the epilog and the health check"
