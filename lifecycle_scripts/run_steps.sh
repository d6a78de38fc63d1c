#!/usr/bin/env bash
# Runs every step in order, each with a time limit, and stops at the first that fails with one line that says why.
#
#   SLURM_STARTED_BY                service | script: set by the entry point
#   SAGEMAKER_RESOURCE_CONFIG_PATH  set by HyperPod (default /opt/ml/config/resource_config.json)
#   NODE_ROOT                       prefix of every path that a step writes; empty on a node
#   STEP_TIMEOUT_SECONDS            limit of one step (default 300)
#   FAILURE_PAUSE_SECONDS           wait before a failed run ends, so that its log is collected first (default 60)
# The platform's facts are in parameters.json beside this file, written when the scripts were delivered.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export NODE_ROOT=${NODE_ROOT:-}
export SLURM_STARTED_BY=${SLURM_STARTED_BY:-service}
export SAGEMAKER_RESOURCE_CONFIG_PATH=${SAGEMAKER_RESOURCE_CONFIG_PATH:-/opt/ml/config/resource_config.json}

# log STEP TEXT: the step's name first, because CloudWatch's list shows only a line's beginning.
log() {
  printf '[%s] %s %s\n' "$1" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$2"
}

export_facts() {
  local facts name value
  facts=$(python3 "$here/node_facts.py" "$SAGEMAKER_RESOURCE_CONFIG_PATH" "$here/parameters.json") || return 1
  while IFS='=' read -r name value; do
    export "$name=$value"
  done <<<"$facts"
  # shellcheck disable=SC2153 # exported just above
  log facts "$NODE_ROLE of group $NODE_GROUP ($INSTANCE_TYPE), cluster $CLUSTER_NAME, orchestrator $ORCHESTRATOR"
}

run_step() {
  local name code=0 limit=${STEP_TIMEOUT_SECONDS:-300}
  name=$(basename "$1" .sh)
  log "$name" "start"
  timeout --kill-after=10 "$limit" bash "$1" 2>&1 </dev/null | sed --unbuffered "s/^/[$name] /" || code=$?
  if ((code == 124 || code == 137)); then
    log "$name" "FAILED: ran past its limit of $limit seconds"
  elif ((code != 0)); then
    log "$name" "FAILED: status $code; the line above says why"
  else
    log "$name" "done"
  fi
  return "$code"
}

main() {
  local step
  export_facts || {
    log facts "FAILED: this node's place in the cluster is unknown; the line above says why"
    return 1
  }
  for step in "$here"/steps/*.sh; do
    run_step "$step" || return 1
  done
  log finished "all steps"
}

log_file=$NODE_ROOT/var/log/provision/provisioning.log
mkdir -p "$(dirname "$log_file")"
if ! main 2>&1 | tee -a "$log_file"; then
  # AWS's own scripts wait as well: HyperPod ends the node at once, and a log that was not collected is lost with it.
  # https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/7.sagemaker-hyperpod-eks/LifecycleScripts/base-config/on_create.sh
  sleep "${FAILURE_PAUSE_SECONDS:-60}"
  exit 1
fi
