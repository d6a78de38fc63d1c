#!/usr/bin/env bash
# Builds what a platform file adds to the base of the training image, and pushes it to ECR beside the base: the packages of
# image.packages, and on them the Dockerfile of image.dockerfile. A tag that exists is not built again. It is a stage of
# CodeBuild, and for a closed network a part of supply.sh.
#
#   MIRROR_REGISTRY, MIRROR_PREFIX, BASE_TAG, BILLS_URI, AWS_REGION   as for base.sh
#   PACKAGES_TAG      hash of the base and its packages, or none
#   DOCKERFILE_TAG    hash of what is before it and the build context of the Dockerfile, or none
# The directory additions of the repository's root has what the deploy found beside the platform file.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
# shellcheck source=delivery/build_tool.sh
source "$here/build_tool.sh"
# shellcheck source=delivery/registry_login.sh
source "$here/registry_login.sh"
# shellcheck source=delivery/organization/network.sh
source "$here/organization/network.sh"
trust_organization "$here"
require MIRROR_REGISTRY MIRROR_PREFIX BASE_TAG BILLS_URI AWS_REGION PACKAGES_TAG DOCKERFILE_TAG

name=$MIRROR_PREFIX/training-base
repository=$MIRROR_REGISTRY/$name
additions=$here/../additions

# exists TAG: leaves the tag's digest in `digest`, and returns whether there is one.
exists() {
  digest=$(ecr_digest "$name" "$1")
  [[ -n "$digest" ]] || return 1
  say "$repository:$1 exists, nothing to build"
}

# keep_bill TAG: keeps the list of the packages of the image `digest`, which the build wrote into it.
keep_bill() {
  local context bill
  context=$(mktemp -d) bill=$(mktemp -d)
  printf '%s\n' 'ARG IMAGE' "FROM \${IMAGE} AS added" 'FROM scratch' 'COPY --from=added /opt/trainway/sbom.spdx.json /' \
    >"$context/Dockerfile"
  run_buildx "$context" Dockerfile "$MIRROR_REGISTRY" --output "type=local,dest=$bill" \
    --build-arg "IMAGE=$repository@$digest" || fail "the list of the packages of $repository:$1 cannot be read"
  aws s3 cp "$bill/sbom.spdx.json" "${BILLS_URI%/}/$1.spdx.json" --only-show-errors ||
    fail "the list of the packages of $repository:$1 is not kept at $BILLS_URI"
  rm -rf "$bill"
}

# packages: builds the packages on the image `digest`.
packages() {
  local context words
  context=$(mktemp -d)
  mkdir "$context/additions"
  cp "$here/../container/packages.Dockerfile" "$here"/../container/{verify_image,bill_of_materials}.py "$context"
  find "$additions" -maxdepth 1 -name '*.txt' -exec cp -t "$context/additions" {} +
  words=$(python3 "$here/build_arguments.py" "$here/../image.json")
  mapfile -t words <<<"$words"
  build_context "$context" packages.Dockerfile "$repository" "$PACKAGES_TAG" "${words[@]}" \
    --build-arg "TRAINWAY_BASE=$repository@$digest" ||
    fail "the packages of image.packages are not installed; the lines above say why"
  keep_bill "$PACKAGES_TAG"
}

# dockerfile: builds the user's Dockerfile on the image `digest`. The build ends with the verification, so that
# nothing is pushed that breaks the network, PyTorch, or the job's packages.
dockerfile() {
  local context verify
  context=$(mktemp -d) verify=$(mktemp -d)
  cp -R "$additions/dockerfile/." "$context"
  # Permissions are lost on the way here, and the same content is to be the same layer.
  chmod -R u=rwx,go=rx "$context"
  cp "$here"/../container/{verify_image,bill_of_materials}.py "$verify"
  (cd "$here/.." && python3 "$here/user_dockerfile.py" "$context/Dockerfile" image.json) >"$verify/Dockerfile"
  build_context "$context" "$verify/Dockerfile" "$repository" "$DOCKERFILE_TAG" \
    --build-arg "TRAINWAY_BASE=$repository@$digest" --build-context "trainway=$verify" ||
    fail "the Dockerfile of image.dockerfile is not built, or breaks what the image had; the lines above say why"
  keep_bill "$DOCKERFILE_TAG"
}

digest=$(ecr_digest "$name" "$BASE_TAG")
[[ -n "$digest" ]] ||
  fail "ECR does not list the base image $name:$BASE_TAG, which the stage before this one builds. Deploy the image stack again"
chosen=
for part in packages dockerfile; do
  tag=PACKAGES_TAG
  [[ "$part" == packages ]] || tag=DOCKERFILE_TAG
  tag=${!tag}
  base=$digest
  if [[ "$tag" != none ]] && ! exists "$tag"; then
    digest=$base
    [[ -n "$chosen" ]] || choose_builder
    chosen=yes
    "$part"
  fi
done
say "image $repository@$digest"
report "$digest"
