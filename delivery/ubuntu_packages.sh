#!/usr/bin/env bash
# Fetches the packages of an Ubuntu release that delivery/node_packages.yaml lists, with all that they depend on and a minimal
# Ubuntu has not: ubuntu_packages.sh RELEASE FOLDER LIST. LIST is `packages` or `exporters`. apt checks the packages by the
# archive's signature. FOLDER must not exist yet.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
release=${1:?which release} folder=${2:?which folder} list=${3:?which list}

declare -A listed_keys
listed_ubuntu=$(python3 "$here/node_packages.py" ubuntu)
while IFS=$'\t' read -r key values; do
  listed_keys[$key]=$values
done <<<"$listed_ubuntu"
keyring=${listed_keys[keyring]}
command -v apt-get >/dev/null && [[ -e "$keyring" ]] ||
  fail "this machine lacks apt-get or $keyring to fetch packages of Ubuntu: run this on Ubuntu, for example in its container"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/found"
# As if nothing were installed: not what this machine has counts.
touch "$work/status"
for suite in ${listed_keys[suites]}; do
  echo "deb [arch=amd64 signed-by=$keyring] ${listed_keys[archive]} ${suite/RELEASE/$release} ${listed_keys[components]}"
done >"$work/sources.list"
apt=(
  apt-get -o "Dir::State::Lists=$work/lists" -o "Dir::State::Status=$work/status" -o "Dir::Cache=$work/cache"
  -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null
  -o Dir::Etc::PreferencesParts=/dev/null -o APT::Architecture=amd64 -o APT::Architectures::=amd64
  -o APT::Sandbox::User=root -o Acquire::Retries=3 -o APT::Update::Error-Mode=any
)

# with_dependencies NAME...: prints the names of all packages that an empty machine would get.
with_dependencies() {
  "${apt[@]}" --simulate --no-install-recommends install "$@" | awk '$1 == "Inst" { print $2 }' | sort --unique
}

"${apt[@]}" --quiet=2 update
read -r -a packages <<<"${listed_keys[$list]}"
read -r -a without <<<"${listed_keys[without]}"
wanted=$(with_dependencies "${packages[@]}")
there=$(with_dependencies "${without[@]}")
mapfile -t delivered < <(comm -23 <(echo "$wanted") <(echo "$there"))
((${#delivered[@]})) || fail "apt found no package of ${packages[*]} in Ubuntu's $release"
(cd "$work/found" && "${apt[@]}" --quiet=2 download "${delivered[@]}")
mkdir -p "$(dirname "$folder")"
mv "$work/found" "$folder"
say "${#delivered[@]} packages of Ubuntu's $release"
