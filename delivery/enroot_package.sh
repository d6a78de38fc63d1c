#!/usr/bin/env bash
# Compiles enroot and makes a Debian package of it: enroot_package.sh TREE VERSION FILE. TREE is its source with all submodules.
# The package does what enroot's own packages `enroot` and `enroot+caps` do together: it lets users import images.
# https://github.com/NVIDIA/enroot/blob/v4.1.2/doc/installation.md (from source; read 2026-11-22)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
tree=${1:?which tree} version=${2:?which version} file=${3:?which file}

lacking=()
for tool in dpkg-deb flock gcc make patch; do
  command -v "$tool" >/dev/null || lacking+=("$tool")
done
((${#lacking[@]} == 0)) || fail "this machine lacks $(listed "${lacking[@]}") to make $(basename "$file") of its source:" \
  "run this on Ubuntu with build-essential"

# enroot's own tools are linked with its own C library, and run on every node.
paths=(prefix= exec_prefix=/usr datarootdir=/usr/share)
package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
log=$package.log
{
  # In two steps: what is made together with its installation looks for its files below DESTDIR.
  timeout --kill-after=5 600 make --directory="$tree" "${paths[@]}" &&
    make --directory="$tree" "${paths[@]}" DESTDIR="$package" install
} >"$log" 2>&1 || fail "enroot $version does not compile: $(tail -n 12 "$log")"
rm "$log"

# Ubuntu 24.04 lets only programs with a profile make user namespaces.
profile=$package/usr/share/enroot/apparmor.profile
if [[ -e "$profile" ]]; then
  mkdir -p "$package/etc/apparmor.d"
  mv "$profile" "$package/etc/apparmor.d/enroot"
fi
mkdir "$package/DEBIAN"
chmod 0755 "$package"
# https://github.com/NVIDIA/enroot/blob/v4.1.2/pkg/deb/control (read 2026-11-22)
cat >"$package/DEBIAN/control" <<CONTROL
Package: enroot
Version: $version-1
Architecture: $(dpkg --print-architecture)
Maintainer: Trainway <trainway@localhost>
Depends: bash (>= 4.2), bsdmainutils, curl, gawk | mawk, jq (>= 1.5), libcap2-bin, parallel, passwd, squashfs-tools, zstd
Conflicts: enroot+caps, enroot-hardened, enroot-hardened+caps
Replaces: enroot+caps, enroot-hardened, enroot-hardened+caps
Provides: enroot+caps
Section: utils
Priority: optional
Description: enroot, compiled from its pinned source
 Runs container images without root, and lets users import them.
CONTROL
(cd "$package" && find etc -type f -printf '/%p\n' | sort) >"$package/DEBIAN/conffiles"
# What `make setcap` does, on the node: a package holds no capabilities.
cat >"$package/DEBIAN/postinst" <<'POSTINST'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
  setcap cap_sys_admin+pe /usr/bin/enroot-mksquashovlfs
  setcap cap_sys_admin,cap_mknod+pe /usr/bin/enroot-aufs2ovlfs
  # A release before 24.04 has another language of profiles and needs none.
  if command -v aa-enabled >/dev/null && aa-enabled --quiet && [ -e /etc/apparmor.d/enroot ]; then
    apparmor_parser --replace --write-cache /etc/apparmor.d/enroot 2>/dev/null || true
  fi
fi
POSTINST
chmod 0755 "$package/DEBIAN/postinst"
# By a compression that dpkg of every release knows; complete or not there.
SOURCE_DATE_EPOCH=0 dpkg-deb --root-owner-group -Zxz --build "$package" "$(dirname "$file")/.${file##*/}" >/dev/null
mv "$(dirname "$file")/.${file##*/}" "$file"
say "compiled enroot $version"
