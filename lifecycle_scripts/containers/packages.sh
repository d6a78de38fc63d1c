#!/usr/bin/env bash
# Installs what the platform delivered beside its scripts and the image has not: packages.sh
# Whatever lies in packages/ and is for this processor, each file as its checksum says.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$here/../lib.sh"
packages=$here/../packages
bring="put it into lifecycle_scripts/packages of the checkout and deploy, or give the node groups an image that has it"

compgen -G "$packages/*.deb" >/dev/null || fail "no package was delivered: deploy the platform again, then replace the node"
broken=$(cd "$packages" && sha256sum --check --quiet SHA256SUMS 2>&1) ||
  fail "a package is not what was delivered (${broken%%$'\n'*}): deploy the platform again, then replace the node"

lacking=()
for file in "$packages"/*.deb; do
  architecture=$(dpkg-deb --field "$file" Architecture)
  if [[ "$architecture" != all && "$architecture" != "$(dpkg --print-architecture)" ]]; then
    continue
  fi
  name=$(dpkg-deb --field "$file" Package)
  there=$(dpkg-query --show --showformat='${db:Status-Abbrev}${Version}' "$name" 2>/dev/null) || true
  [[ "$there" == "ii $(dpkg-deb --field "$file" Version)" ]] || lacking+=("$file")
done
if ((${#lacking[@]} == 0)); then
  echo "the delivered packages are installed"
  exit 0
fi

# Ubuntu's own updates may hold dpkg's lock.
deadline=$((SECONDS + ${DPKG_WAIT_SECONDS:-120}))
until said=$(DEBIAN_FRONTEND=noninteractive timeout --kill-after=10 120 dpkg --force-confold --install "${lacking[@]}" 2>&1); do
  if [[ "$said" != *" lock "* && "$said" != *"locked by another process"* ]]; then
    depends=$(grep --max-count=1 --only-matching ' depends on .*; however' <<<"$said") || depends=""
    [[ -z "$depends" ]] || fail "a package${depends%; however}, which neither the image has nor packages/: $bring"
    fail "dpkg failed: ${said##*$'\n'}"
  fi
  ((SECONDS < deadline)) ||
    fail "dpkg's lock is held for ${DPKG_WAIT_SECONDS:-120} s: \`fuser /var/lib/dpkg/lock-frontend\` says by whom"
  sleep 2
done
echo "installed $(for file in "${lacking[@]}"; do basename "$file"; done | paste --serial --delimiters=' ')"
