#!/usr/bin/env bash
# Write the platform's settings to a block at the end of the controller's slurm.conf: platform_settings.sh PARAMETERS
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$here/../lib.sh"

etc=/opt/slurm/etc
# Without it there is nothing that reads the settings either.
version=$(slurmctld -V 2>/dev/null || true)
parameters=$(python3 "$here/../node_facts.py" --parameters "$1" 2>&1) || fail "$parameters"
flags=()
of_platform() {
  python3 "$here/platform_settings.py" "${flags[@]}" "$@" "$version" /opt/trainway/slurm <<<"$parameters"
}
put() {
  python3 "$here/../slurm_settings.py" "$etc/slurm.conf" platform "$1" 2>&1
}
settings=$(of_platform)
if [[ "$settings" =~ (job_container|namespace)/tmpfs ]]; then
  # Nodes have the plugins that the controller has, because they have the same image.
  if bash "$here/has_private_tmp.sh"; then
    # Slurm sends the file to the nodes with its configuration. On the disk of each node, the directory of every job is
    # for its user alone, and Slurm deletes it with the job.
    if write_file "$etc/job_container.conf" 0644 < <(printf '%s\n' AutoBasePath=true BasePath=/opt/trainway/job-tmp); then
      echo "wrote $etc/job_container.conf"
    fi
  else
    # A cluster whose jobs share /tmp is usable. A cluster on whose nodes slurmd does not start is not.
    echo "WARNING: Slurm has no plugin for a private /tmp here, or Linux is 6.18 or newer, and jobs on one node share /tmp"
    flags=(--without-private-tmp)
    settings=$(of_platform)
  fi
fi
if [[ "$settings" == '{}' && ! -e "$etc/slurm.conf" ]]; then
  exit 0
fi
for name in prolog epilog; do
  if write_file "$etc/trainway-$name.sh" 0755 <"$here/$name.sh"; then
    echo "wrote $etc/trainway-$name.sh"
  fi
done
# Some releases take version 1 of cgroups for granted without this file.
# https://slurm.schedmd.com/cgroup.conf.html (read 2026-11-24)
if [[ "$settings" == *proctrack/cgroup* && ! -e "$etc/cgroup.conf" ]]; then
  put_file "$etc/cgroup.conf" 0644 <<<"CgroupPlugin=autodetect"
  echo "wrote $etc/cgroup.conf"
fi
if ! said=$(put "$settings"); then
  own=$(of_platform --without-settings)
  [[ "$own" != "$settings" ]] || fail "$said"
  # A cluster whose Slurm lacks a setting is usable. A cluster whose creation failed is not.
  echo "WARNING: $said"
  said=$(put "$own") || fail "$said"
  echo "WARNING: Slurm continues without slurm.settings of the platform file: correct them, and run this again"
fi
[[ -z "$said" ]] || echo "$said"
