#!/bin/bash
# Makes a snapshot of Ubuntu's archive the only source of apt, and upgrades the packages of the base image to it:
# ubuntu_snapshot.sh ADDRESS CERTIFICATES. The address is that of one snapshot, and CERTIFICATES a file that apt trusts its
# server by. Without an address, apt keeps the sources that the base image has, and nothing is upgraded.
# https://documentation.ubuntu.com/server/how-to/software/snapshot-service (read 2026-11-23)
set -euo pipefail

address=$1
certificates=$2
# An organization's proxy can answer in place of the server, with a certificate of its own.
[[ ! -e /run/secrets/authorities ]] || certificates=/run/secrets/authorities

if [[ -z "$address" ]]; then
  apt-get update
  exit
fi
# shellcheck source=/dev/null
source /etc/os-release
if [[ "$ID" != ubuntu ]]; then
  echo "image.refresh: the base image is $NAME, and only Ubuntu has these snapshots. Remove image.refresh, or name a base" \
    "image with Ubuntu as image.base" >&2
  exit 1
fi
# Other repositories, such as NVIDIA's, have no snapshots. What the base image has of them stays as it is.
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d
mkdir /etc/apt/sources.list.d
# A snapshot's lists stay as they were, so their age says nothing.
cat >/etc/apt/sources.list.d/ubuntu.sources <<SOURCES
Types: deb
URIs: $address
Suites: $VERSION_CODENAME $VERSION_CODENAME-updates $VERSION_CODENAME-security
Components: main restricted universe multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg
Check-Valid-Until: no
SOURCES
apt-get --option Acquire::https::CAInfo="$certificates" --error-on=any update
apt-get --option Acquire::https::CAInfo="$certificates" --yes --no-install-recommends --with-new-pkgs upgrade
# What is installed next comes from the same server, and has the certificates in the image from then on.
apt-get --option Acquire::https::CAInfo="$certificates" install --yes --no-install-recommends ca-certificates
