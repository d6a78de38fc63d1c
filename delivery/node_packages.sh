#!/usr/bin/env bash
# Puts what delivery/node_packages.yaml lists into a folder, with checksums: node_packages.sh FOLDER PART... PART is `containers`,
# `exporters`, or `collector`. Files that are there already are kept. The scripts stage calls it. For a closed network, delivery/supply.sh
# calls it for the checkout's lifecycle_scripts/yours/packages, on a machine with the internet, and the deploy takes the files
# from the checkout.
#
#   NETWORK_ACCESS   private (default) | closed: nothing is fetched; everything must be there already
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
# shellcheck source=delivery/organization/network.sh
source "$here/organization/network.sh"
trust_organization "$here"
folder=${1:?which folder}
shift
mkdir -p "$folder"

# wanted PART: whether the part was asked for.
asked=" $* "
wanted() { [[ "$asked" == *" $1 "* ]]; }

# fetch_tree TREE PARTS: makes the tree of the commits, the repository's own first and then its submodules.
fetch_tree() {
  local tree=$1 path location commit clone
  while read -r -d ';' path location commit; do
    clone=$(mktemp -d -p "$work")
    git init --quiet "$clone"
    git -C "$clone" fetch --quiet --depth 1 "$location" "$commit" ||
      fail "commit $commit cannot be fetched from $location: check that this machine reaches it"
    mkdir -p "$tree/$path"
    git -C "$clone" archive FETCH_HEAD | tar --extract --directory "$tree/$path"
  done <<<"$2"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missing=()
listed_sources=$(python3 "$here/node_packages.py" sources)
while IFS=$'\t' read -r -u 3 file version pinned parts; do
  wanted containers || break
  if [[ -e "$folder/$file" ]]; then
    continue
  elif closed; then
    missing+=("$file")
    continue
  fi
  say "source of $file"
  tree=$work/${file%.tar}
  fetch_tree "$tree" "$parts"
  found=$(python3 "$here/tree_hash.py" "$tree")
  [[ "$pinned" == - || "$found" == "$pinned" ]] || fail "the source of $file has the hash $found instead of $pinned: its" \
    "commits in delivery/node_packages.yaml do not belong together"
  case $file in
    *.tar)
      tar --create --file "$folder/.$file" --directory "$work" --sort=name --owner=0 --group=0 --numeric-owner \
        --mtime=@0 "${file%.tar}"
      mv "$folder/.$file" "$folder/$file"
      ;;
    enroot_*.deb) bash "$here/enroot_package.sh" "$tree" "$version" "$folder/$file" ;;
    *) fail "delivery/node_packages.yaml names $file, which no script makes: name a .tar file" ;;
  esac
done 3<<<"$listed_sources"

read -r -a releases < <(python3 "$here/node_packages.py" ubuntu | sed -n 's/^releases\t//p')
# from_ubuntu LIST PREFIX: the packages of a list, in a folder for each release.
from_ubuntu() {
  local release
  for release in "${releases[@]}"; do
    if [[ -d "$folder/$2$release" ]]; then
      continue
    elif closed; then
      missing+=("$2$release/")
    else
      bash "$here/ubuntu_packages.sh" "$release" "$folder/$2$release" "$1"
    fi
  done
}
if wanted containers; then
  from_ubuntu packages ""
fi
if wanted exporters; then
  from_ubuntu exporters exporters/
fi
if wanted collector; then
  listed_programs=$(python3 "$here/node_packages.py" programs)
  while IFS=$'\t' read -r -u 3 file url sum program; do
    if [[ -e "$folder/$file" ]]; then
      continue
    elif closed; then
      missing+=("$file")
      continue
    fi
    say "$file of $url"
    archive=$work/${url##*/}
    curl --fail --silent --show-error --location --retry 3 --max-time 300 --output "$archive" "$url"
    must_be "$sum" "$archive" "$url"
    mkdir -p "$(dirname "$folder/$file")"
    tar --extract --gzip --to-stdout --file "$archive" "$program" | gzip --no-name >"$folder/$file.new"
    mv "$folder/$file.new" "$folder/$file"
  done 3<<<"$listed_programs"
fi
((${#missing[@]} == 0)) || fail "a closed network cannot fetch what is missing: $(listed "${missing[@]}"). Run the command" \
  "that the image stack prints as its output Supply in this checkout on a machine with the internet, then deploy again"

cd "$folder"
find . -type f \( -name '*.deb' -o -name '*.gz' -o -name '*.tar' \) -printf '%P\0' | sort --zero-terminated |
  xargs --null sha256sum -- >SHA256SUMS
say "the packages for nodes are in $folder"
