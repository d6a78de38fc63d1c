#!/usr/bin/env bash
# enroot runs an image as an unprivileged user. Set up each user's files on the node's disk, and files with the lifetime
# of a container in memory: enroot.sh
# https://github.com/NVIDIA/enroot/blob/v4.1.2/doc/configuration.md (read 2026-11-22)
#   NODE_ROOT   prefix of every path that is read or written; empty on a node
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$here/../lib.sh"
# shellcheck source=lifecycle_scripts/containers/place.sh
source "$here/place.sh"
root=${NODE_ROOT:-}
place=$(container_place) || fail "no directories for containers can be made: the disk may be full or broken; replace the node"
place=${place#"$root"}

# enroot creates the last directory of each path, for its user alone. PAM gives a Slurm job no runtime directory.
# shellcheck disable=SC2016 # enroot expands it
write_file "$root/etc/enroot/enroot.conf.d/90-trainway.conf" 0644 <<SETTINGS && echo "enroot keeps containers in $place/enroot"
ENROOT_RUNTIME_PATH /run/enroot/user-\$(id -u)
ENROOT_CACHE_PATH $place/enroot/cache/user-\$(id -u)
ENROOT_DATA_PATH $place/enroot/data/user-\$(id -u)
ENROOT_TEMP_PATH $place/enroot/tmp
SETTINGS
# The second directory is pyxis's, which creates it only when slurmd starts.
put_file "$root/etc/tmpfiles.d/trainway-containers.conf" 0644 <<'TMPFILES'
d /run/enroot 1777 root root
d /run/pyxis 0755 root root
TMPFILES
systemd-tmpfiles --create "$root/etc/tmpfiles.d/trainway-containers.conf"

# This hook passes Slurm's variables into the container. The other one sets variables that torchrun sets itself.
# https://github.com/NVIDIA/enroot/tree/v4.1.2/conf/hooks/extra (read 2026-11-22)
hook=50-slurm-pmi.sh
if [[ -e "$root/usr/share/enroot/hooks.d/$hook" && ! -e "$root/etc/enroot/hooks.d/$hook" ]]; then
  mkdir -p "$root/etc/enroot/hooks.d"
  ln -sf "/usr/share/enroot/hooks.d/$hook" "$root/etc/enroot/hooks.d/$hook"
fi
echo "$(enroot version | sed 's/^/enroot /') is set up"
