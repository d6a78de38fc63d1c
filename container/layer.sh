#!/bin/bash
# The shell of the Dockerfile's RUN instructions: layer.sh COMMAND runs bash on the command, so that the same content gives the
# same layer. The times of what the command wrote become SOURCE_DATE_EPOCH (seconds), and logs of the installation are emptied.
#
# BuildKit's rewrite-timestamp does this while it exports. A Docker before 29 with the containerd image store refuses it, and
# CodeBuild has such a Docker: https://github.com/moby/moby/pull/51493 (read 2026-11-23)
set -euo pipefail

# What an organization's network asks for is there while the command runs, and in no layer: delivery/organization/network.sh.
authorities=/run/secrets/authorities
if [[ -e "$authorities" ]]; then
  export CURL_CA_BUNDLE=$authorities GIT_SSL_CAINFO=$authorities SSL_CERT_FILE=$authorities
  export REQUESTS_CA_BUNDLE=$authorities PIP_CERT=$authorities APT_CONFIG=/tmp/trainway-apt.conf
  printf 'Acquire::https::CAInfo "%s";\n' "$authorities" >"$APT_CONFIG"
fi
[[ ! -e /run/secrets/pip ]] || export PIP_CONFIG_FILE=/run/secrets/pip
# A file's time is that of the kernel's last tick, which can be before the clock's.
began=$(($(date +%s) - 1))
bash -euo pipefail -c "$1"
[[ ! -e "$authorities" ]] || rm -f "$APT_CONFIG"
# A Dockerfile of the user's begins with this shell, too, and need not declare the argument. Its files keep their times.
[[ -n "${SOURCE_DATE_EPOCH:-}" ]] || exit 0
# The server's keys would be the same in every container that the image starts.
rm -f /etc/ssh/ssh_host_*
# What the base image has of these is emptied and not deleted, because the record of a deletion has a time of its own.
find /var/log /var/cache/ldconfig -xdev -type f -newermt "@$began" -size +0 -exec truncate --size 0 {} + 2>/dev/null || true
# A file that dpkg unpacks keeps the time that its package states. A directory has the time of whatever was put into it, also
# by COPY, and is in the layer of each file below it.
find / -xdev \( -path /proc -o -path /sys -o -path /dev \) -prune -o \
  \( -newermt "@$began" -o -type d -newermt "@$SOURCE_DATE_EPOCH" \) \
  -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} + 2>/dev/null || true
