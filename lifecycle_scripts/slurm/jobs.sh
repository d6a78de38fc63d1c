#!/usr/bin/env bash
# Hold jobs back from this node until it is ready, or release it: jobs.sh hold | release. Only a node that was held is
# released. A node that somebody else drained stays drained.
# https://slurm.schedmd.com/scontrol.html, DRAIN and UNDRAIN (read 2026-11-22)
#   JOBS_WAIT_SECONDS      how long slurmctld may take to answer (default 60)
#   SETTINGS_WAIT_SECONDS  how long the controller may take to have the platform's settings (default 300)
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$scripts/lib.sh"

export PATH=$PATH:/opt/slurm/bin
limit=${JOBS_WAIT_SECONDS:-60}
name=$(hostname -s)
ready=$NODE_ROOT/var/lib/trainway/takes-jobs
reason="Trainway: lifecycle scripts are not done, see /var/log/provision/provisioning.log"

is_held() {
  scontrol show node "$name" | grep -qF "Reason=$reason"
}

node_state() {
  scontrol --oneliner show node "$name" | sed -n 's/.* State=\([^ ]*\).*/\1/p'
}

# UNDRAIN instead of RESUME, which is refused for a node that has not answered since the controller's last restart.
take_jobs() {
  scontrol update "nodename=$name" state=undrain
}

answers() {
  scontrol show node "$name" >/dev/null 2>&1
}

# walls_are_in_force: whether slurmctld has the settings that slurmd reads only at its start.
walls_are_in_force() {
  local shown
  shown=$(timeout 10 scontrol show config) || return
  if [[ "$SLURM_LOGIN_NEEDS_JOB" == true ]]; then
    # The controller writes both at once. One that is older than private_tmp never has it.
    [[ "$shown" =~ ProctrackType\ *=\ proctrack/cgroup ]]
  else
    [[ "$shown" =~ (job_container|namespace)/tmpfs ]]
  fi
}

# is_up: whether the node has registered itself since slurmd was restarted.
is_up() {
  systemctl is-active --quiet slurmd && [[ "$(node_state)" != *[*]* && "$(node_state)" != *@(UNKNOWN|NOT_RESPONDING|DOWN)* ]]
}

# wants_private_tmp: whether the platform gives jobs a private /tmp, and this node's Slurm can.
wants_private_tmp() {
  [[ "$SLURM_PRIVATE_TMP" == true ]] && bash "$scripts/slurm/has_private_tmp.sh"
}

# restart_slurmd: HyperPod has started slurmd, and the controller may have got the platform's settings since. A slurmd and
# a job that have different plugins drain the node.
restart_slurmd() {
  [[ "$SLURM_LOGIN_NEEDS_JOB" == true ]] || wants_private_tmp || return 0
  wait_until "${SETTINGS_WAIT_SECONDS:-300}" 1 walls_are_in_force ||
    echo "WARNING: slurmctld does not have the platform's settings, and users are less separate here;" \
      "provisioning.log of the controller says why"
  { timeout --kill-after=5 60 systemctl restart slurmd && wait_until "$limit" 1 is_up; } ||
    fail "slurmd does not start with the platform's settings: \`journalctl -u slurmd\` on this node says why"
}

case $1 in
  hold)
    if [[ -e "$ready" ]]; then
      echo "this node takes jobs already, nothing to do"
    elif ! wait_until "$limit" 1 answers; then
      # A job that starts too early is better than a node that a restart of the controller blocks.
      echo "WARNING: slurmctld did not tell of $name within $limit s, and jobs may begin on it before it is ready"
    elif is_held; then
      echo "no job begins on this node yet"
    elif [[ "$(node_state)" == *DRAIN* ]]; then
      echo "$name is drained by somebody else, and stays so"
    else
      scontrol update "nodename=$name" state=drain "reason=$reason"
      echo "no job begins on this node until all steps are done"
    fi
    ;;
  release)
    wait_until "$limit" 1 answers || fail "slurmctld did not tell of $name within $limit s; when it answers," \
      "\`scontrol update nodename=$name state=resume\` lets jobs begin on this node"
    if is_held; then
      restart_slurmd
      wait_until "$limit" 1 take_jobs || fail "$name cannot be released; \`scontrol show node $name\` says what keeps it," \
        "and \`scontrol update nodename=$name state=resume\` lets jobs begin on it"
      echo "jobs may begin on this node"
    else
      echo "nothing keeps jobs from this node that is the platform's, nothing to do"
    fi
    put_file "$ready" 0644 </dev/null
    ;;
esac
