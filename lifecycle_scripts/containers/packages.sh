#!/usr/bin/env bash
# Install the packages that the platform delivered beside its scripts and that the image lacks: packages.sh
# Every package in yours/packages for this processor is installed in exactly that version. The Ubuntu packages that
# these depend on are in a folder per release, and are installed only if the image has no version of them.
#   NODE_ROOT   prefix of every path that is read; empty on a node
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$here/../lib.sh"
packages=$here/../yours/packages
bring="put it into lifecycle_scripts/yours/packages of the checkout and deploy, or give the node groups an image that has it"

compgen -G "$packages/*.deb" >/dev/null || fail "no package was delivered: deploy the platform again, then replace the node"
broken=$(cd "$packages" && sha256sum --check --quiet SHA256SUMS 2>&1) ||
  fail "a package is not what was delivered (${broken%%$'\n'*}): deploy the platform again, then replace the node"

# is_for_this_processor FILE: return whether the package is for this processor.
is_for_this_processor() {
  local architecture
  architecture=$(dpkg-deb --field "$1" Architecture)
  [[ "$architecture" == all || "$architecture" == "$(dpkg --print-architecture)" ]]
}

# installed_version FILE: print `ii ` and the installed version of the package, or another text.
installed_version() {
  dpkg-query --show --showformat='${db:Status-Abbrev}${Version}' "$(dpkg-deb --field "$1" Package)" 2>/dev/null || true
}

lacking=()
for file in "$packages"/*.deb; do
  is_for_this_processor "$file" || continue
  [[ "$(installed_version "$file")" == "ii $(dpkg-deb --field "$file" Version)" ]] || lacking+=("$file")
done
if ((${#lacking[@]} == 0)); then
  echo "the delivered packages are installed"
  exit 0
fi
release=$(sed -n 's/^VERSION_CODENAME=//p' "${NODE_ROOT:-}/etc/os-release")
for file in "$packages/$release"/*.deb; do
  if [[ -e "$file" ]] && is_for_this_processor "$file" && [[ "$(installed_version "$file")" != ii\ * ]]; then
    lacking+=("$file")
  fi
done

# Ubuntu's own updates may hold dpkg's lock.
deadline=$((SECONDS + ${DPKG_WAIT_SECONDS:-120}))
until said=$(DEBIAN_FRONTEND=noninteractive timeout --kill-after=10 120 dpkg --force-confold --install "${lacking[@]}" 2>&1); do
  if [[ "$said" != *" lock "* && "$said" != *"locked by another process"* ]]; then
    depends=$(grep --max-count=1 --only-matching ' depends on .*; however' <<<"$said") || depends=""
    [[ -z "$depends" ]] || fail "a package${depends%; however}, which neither the image has nor yours/packages: $bring"
    fail "dpkg failed: ${said##*$'\n'}"
  fi
  ((SECONDS < deadline)) ||
    fail "dpkg's lock is held for ${DPKG_WAIT_SECONDS:-120} s: \`fuser /var/lib/dpkg/lock-frontend\` says by whom"
  sleep 2
done
echo "installed $(for file in "${lacking[@]}"; do basename "$file"; done | paste --serial --delimiters=' ')"
