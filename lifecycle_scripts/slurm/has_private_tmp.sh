#!/usr/bin/env bash
# Whether Slurm can give jobs a private /tmp here: it has the plugin, whose name changed in Slurm 25.11, and the kernel is
# older than 6.18. On Linux 6.18.44, each CPU numbers mount namespaces in a range of its own (measured by NS_GET_MNTNS_ID on
# 2026-11-25), and the kernel refuses to keep one whose number is below that of slurmstepd's, so that some jobs do not start.
#   KERNEL   the kernel's release (default: that of this node)
set -euo pipefail
shopt -s nullglob
IFS=.- read -r major minor _ <<<"${KERNEL:-$(uname -r)}"
((major < 6 || (major == 6 && minor < 18))) || exit 1
for directory in /opt/slurm/lib*/slurm /usr/lib/*/slurm*; do
  for plugin in job_container namespace; do
    [[ ! -e "$directory/${plugin}_tmpfs.so" ]] || exit 0
  done
done
exit 1
