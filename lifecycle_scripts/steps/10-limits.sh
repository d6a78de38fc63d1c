#!/usr/bin/env bash
# Set limits of the kernel and of systemd for jobs: locked memory, open files, and connections to many nodes.
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# RDMA pins its buffers, and a rank opens a connection to every other rank.
# https://github.com/NVIDIA/nccl/blob/master/docs/userguide/source/troubleshooting/networking_troubleshooting.rst
# (read 2026-11-22)
files=1048576
changed=0
# wrote FILE: write standard input to the file, and print a line if it changed.
wrote() {
  if write_file "$1" 0644; then
    echo "wrote $1"
    changed=1
  fi
}

# Limits of login shells: a job has the limits of the shell that submitted it.
# PropagateResourceLimits in https://slurm.schedmd.com/slurm.conf.html (read 2026-11-22)
wrote /etc/security/limits.d/90-trainway.conf <<EOF
* soft memlock unlimited
* hard memlock unlimited
* soft nofile $files
* hard nofile $files
root soft memlock unlimited
root hard memlock unlimited
root soft nofile $files
root hard nofile $files
EOF
# Limits of services that systemd starts: Slurm's daemon with its jobs, the container runtimes, and the agent of Systems
# Manager with its sessions. https://slurm.schedmd.com/faq.html#memlock (read 2026-11-22)
wrote /etc/systemd/system.conf.d/90-trainway.conf <<EOF
[Manager]
DefaultLimitMEMLOCK=infinity
DefaultLimitNOFILE=$files
EOF
# A unit may have limits of its own. Slurm's has 131072 files.
# https://github.com/SchedMD/slurm/blob/master/etc/slurmd.service.in (read 2026-11-22)
wrote /etc/systemd/system/slurmd.service.d/80-trainway-limits.conf <<EOF
[Service]
LimitMEMLOCK=infinity
LimitNOFILE=$files
LimitSTACK=infinity
EOF
# Query systemd itself, because this step may have been killed after it wrote the files.
if [[ "$(systemctl show --value --property=DefaultLimitNOFILE)" != "$files" ||
"$(systemctl show --value --property=NeedDaemonReload slurmd.service)" == yes ]]; then
  systemctl daemon-reexec
fi

# may_have PROCESS-ID: raise the limit that a running process passes on, as far as the kernel allows it.
may_have() {
  prlimit --pid "$1" --memlock=unlimited:unlimited 2>/dev/null || return 1
  prlimit --pid "$1" --nofile="$files:$files" 2>/dev/null
}
# The kernel limits process names to fifteen characters.
for daemon in slurmd amazon-ssm-agen ssm-agent-worke containerd dockerd kubelet; do
  for process in $(pgrep -x "$daemon" || true); do
    if [[ "$(prlimit --pid "$process" --memlock --noheadings --raw --output SOFT)" == unlimited ]]; then
      continue
    elif may_have "$process"; then
      echo "$daemon, which was running, may lock all memory"
    else
      echo "WARNING: $daemon (process $process) may not lock all memory, so that EFA fails in what it starts: restart it"
    fi
  done
done

# Sysctls, each as it is wanted at least or exactly.
#   somaxconn, tcp_max_syn_backlog   thousands of ranks connect to one at the same moment, and all nodes to slurmctld:
#     https://slurm.schedmd.com/high_throughput.html, and the values of AWS ParallelCluster:
#     https://github.com/aws/aws-parallelcluster-cookbook/blob/develop/cookbooks/aws-parallelcluster-platform/recipes/config/networking.rb
#   gc_thresh                        an entry for each node of a large cluster, which all talk to one another:
#     https://github.com/aws/aws-parallelcluster-cookbook/blob/develop/cookbooks/aws-parallelcluster-platform/attributes/platform.rb
#   ptrace_scope                     libfabric reads its neighbors' memory on a node, which Ubuntu lets a parent alone do:
#     https://github.com/aws/aws-parallelcluster-cookbook/blob/develop/cookbooks/aws-parallelcluster-environment/resources/efa/partial/_disable_ptrace_debian.rb
# (all read 2026-11-22)
sysctls=(
  "net.core.somaxconn at-least 65535"
  "net.ipv4.tcp_max_syn_backlog at-least 65535"
  "net.ipv4.neigh.default.gc_thresh2 at-least 15360"
  "net.ipv4.neigh.default.gc_thresh3 at-least 16384"
)
# shellcheck disable=SC2153 # a fact
if [[ "$NODE_ROLE" == compute ]] && compgen -G '/sys/class/infiniband/*' >/dev/null; then
  sysctls+=("kernel.yama.ptrace_scope exactly 0")
fi
there=() lines=()
for entry in "${sysctls[@]}"; do
  read -r name how value <<<"$entry"
  file=/proc/sys/${name//./\/}
  # A kernel without the setting has nothing to set.
  [[ -e "$file" ]] || continue
  if [[ "$how" == at-least ]] && (($(<"$file") > value)); then
    value=$(<"$file")
  fi
  there+=("$name $value")
  # With a leading hyphen, a setting that fails does not prevent others at the node's start.
  lines+=("-$name = $value")
done
wrote /etc/sysctl.d/90-trainway.conf < <(printf '%s\n' "${lines[@]}")

for entry in "${there[@]}"; do
  read -r name value <<<"$entry"
  file=/proc/sys/${name//./\/}
  if (($(<"$file") != value)) && echo "$value" 2>/dev/null >"$file"; then
    echo "set $name to $(<"$file")"
    changed=1
  fi
  if (($(<"$file") != value)); then
    echo "WARNING: $name is $(<"$file") and cannot be set to $value"
  fi
done
((changed)) || echo "limits are as they should be"
