#!/usr/bin/env bash
# Fetches what delivery/node_packages.yaml lists into a folder: node_packages.sh FOLDER. What is there already is left alone.
# The scripts stage calls it. For a closed network a person calls it, on a machine with the internet, for the checkout's
# lifecycle_scripts/packages, and deploys from that checkout.
#
#   NETWORK_ACCESS   private (default) | closed: nothing is fetched; everything must be there already
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
folder=${1:?which folder}
mkdir -p "$folder"

missing=()
listed_packages=$(python3 "$here/node_packages.py")
while IFS=$'\t' read -r -u 3 file kind location pin; do
  if [[ -e "$folder/$file" ]]; then
    [[ "$kind" != file || "$pin" == - ]] || must_be "$pin" "$folder/$file" "lifecycle_scripts/packages/$file"
  elif closed; then
    missing+=("$file")
  elif [[ "$kind" == git ]]; then
    say "source $file"
    clone=$(mktemp -d)
    git init --quiet "$clone"
    git -C "$clone" fetch --quiet --depth 1 "$location" "$pin"
    git -C "$clone" archive --prefix="${file%.tar}/" --output="$clone/archive.tar" FETCH_HEAD
    mv "$clone/archive.tar" "$folder/$file"
    rm -rf "$clone"
  elif [[ "$pin" == - ]]; then
    fail "no checksum of $file is known, and nothing is installed on nodes that could be anything: compare $location with" \
      "its publisher's, then put it into lifecycle_scripts/packages or its sha256 into delivery/node_packages.yaml"
  else
    say "package $location"
    curl --fail --silent --show-error --location --retry 3 --max-time 120 --output "$folder/.$file" "$location"
    must_be "$pin" "$folder/.$file" "$location"
    mv "$folder/.$file" "$folder/$file"
  fi
done 3<<<"$listed_packages"
((${#missing[@]} == 0)) || fail "a closed network cannot fetch what is missing: $(listed "${missing[@]}"). Run" \
  "\`bash delivery/node_packages.sh lifecycle_scripts/packages\` in the checkout on a machine with the internet, and deploy it"

(cd "$folder" && sha256sum -- *.deb *.tar >SHA256SUMS)
say "the nodes' packages are in $folder"
