#!/usr/bin/env bash
# Brings what a closed network cannot fetch into the platform's own ECR and bucket: the charts and their images, helm, and the
# stages of the training image that need the internet. It is no stage of CodeBuild: a person runs it on a machine with the
# internet and credentials for the platform's account. What is there already is left alone.
#
#   AWS_REGION         region of the platform
#   SUPPLY_PARAMETER   SSM parameter of the image stack: a JSON object of the variables that mirror.sh, base.sh, and for a
#                      platform that adds to the base additions.sh ask for
# `trainway image additions` puts what additions.sh builds into the checkout.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
require AWS_REGION SUPPLY_PARAMETER

lacking=()
# The pinned helm and the image are built for it, and run here: helm to copy, the image's tools to build it.
[[ "$(uname -sm)" == "Linux x86_64" ]] || lacking+=("Linux on x86_64 (this is $(uname -sm))")
for tool in docker aws git curl python3; do
  command -v "$tool" >/dev/null || lacking+=("$tool")
done
! command -v docker >/dev/null || docker buildx version >/dev/null 2>&1 || lacking+=("docker's buildx")
! command -v python3 >/dev/null || python3 -c 'import yaml' 2>/dev/null || lacking+=("python3's module yaml (PyYAML)")
((${#lacking[@]} == 0)) || fail "this machine lacks $(listed "${lacking[@]}")"

# Version 1 of the AWS CLI does not know AWS_REGION.
export AWS_DEFAULT_REGION=$AWS_REGION
supplied=$(aws ssm get-parameter --name "$SUPPLY_PARAMETER" --query Parameter.Value --output text)
# Assigned, never evaluated. The status of a process substitution is that of its `wait`.
mapfile -d '' -t variables < <(cd "$here/.." && python3 -m delivery.supply_variables "$SUPPLY_PARAMETER" <<<"$supplied")
wait "$!" || refuse "nothing is brought in; the line above says what is wrong"
for ((at = 0; at < ${#variables[@]}; at += 2)); do
  export "${variables[at]}=${variables[at + 1]}"
done
require MIRROR_REGISTRY MIRROR_PREFIX MIRROR_BUCKET_URI BASE_TAG BILLS_URI IMAGE_ARGUMENTS
# As the deploy's bundle has it: it is a part of what the tag is the hash of.
printf '%s' "$IMAGE_ARGUMENTS" >"$here/../image.json"
# Empty where there is no Kubernetes, which is another thing than a parameter that does not say.
[[ -v CHARTS ]] || fail "$SUPPLY_PARAMETER does not say which charts: deploy the image stack from this checkout"
checkout=$(cd "$here/.." && python3 -m delivery.content_hash base)
[[ "$checkout" == "$BASE_TAG" ]] ||
  fail "this checkout makes the base image $checkout, and the image stack waits for $BASE_TAG: check out the version that was" \
    "deployed, or deploy the image stack from this one"
for part in packages dockerfile; do
  wanted=${part^^}_TAG
  [[ -v PACKAGES_TAG ]] || break
  checkout=$(cd "$here/.." && python3 -m delivery.content_hash "$part")
  [[ "$checkout" == "${!wanted}" ]] ||
    fail "the folder additions of this checkout makes the image $checkout, and the image stack waits for ${!wanted}: run" \
      "\`trainway image additions FILE\` here with the platform file that was deployed"
done
# This machine is not in the closed network that it supplies.
export NETWORK_ACCESS=private
if [[ -n "$CHARTS" ]]; then
  bash "$here/mirror.sh"
fi
parts=()
[[ "${CONTAINERS:-none}" == none ]] || parts+=(containers)
[[ "${EXPORTERS:-false}" == false ]] || parts+=(exporters)
[[ "${COLLECTOR:-false}" == false ]] || parts+=(collector)
if ((${#parts[@]})); then
  # Into this checkout, from which the platform is deployed: scripts and packages go to the nodes together.
  bash "$here/node_packages.sh" "$here/../lifecycle_scripts/yours/packages" "${parts[@]}"
fi
bash "$here/base.sh"
if [[ -v PACKAGES_TAG ]]; then
  bash "$here/additions.sh"
fi
say "$MIRROR_REGISTRY/$MIRROR_PREFIX has all that comes from the internet; the platform can be deployed"
