#!/usr/bin/env bash
# Builds the stage `libraries` of container/Dockerfile, which has all that changes seldom or needs the internet, and pushes it to
# ECR, where image.sh finds it; a tag that exists is not built again. It is a stage of CodeBuild, and for a closed network
# a part of supply.sh.
#
#   MIRROR_REGISTRY   <account>.dkr.ecr.<region>.amazonaws.com
#   MIRROR_PREFIX     repository prefix; the repository <prefix>/training-base must exist
#   BASE_TAG          hash of what the stage is built from; tags are immutable
#   BILLS_URI         s3://bucket/prefix that keeps the list of what each base consists of, by the base's tag, and what each image
#                     was made of, by its digest
#   AWS_REGION        region of the registry
#   BASE_LOGIN_SECRET ARN of the secret that has the login to the registry of BASE_IMAGE, which image.json names; may be empty
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
require MIRROR_REGISTRY MIRROR_PREFIX BASE_TAG BILLS_URI AWS_REGION

name=$MIRROR_PREFIX/training-base
repository=$MIRROR_REGISTRY/$name
digest=$(ecr_digest "$name" "$BASE_TAG")
if [[ -n "$digest" ]]; then
  say "$repository:$BASE_TAG exists, nothing to build"
else
  choose_builder
  words=() keep_cache=()
  if builder_has_cache; then
    # Tags never move, so each base has a cache of its own, and a build begins with the newest.
    newest=$(aws ecr describe-images --repository-name "$name" --filter tagStatus=TAGGED --output text \
      --query 'reverse(sort_by(imageDetails, &imagePushedAt))[].imageTags[]' | tr '\t' '\n' | grep -m1 '^cache-' || true)
    compression=$(cd "$here/.." && argument LAYER_COMPRESSION)
    [[ -z "$newest" ]] || words+=(--cache-from "type=registry,ref=$repository:$newest")
    # image-manifest and oci-mediatypes: what ECR stores of a cache. ignore-error: an image without its cache is whole.
    # https://aws.amazon.com/blogs/containers/announcing-remote-cache-support-in-amazon-ecr-for-buildkit-clients/
    # https://docs.docker.com/build/cache/backends/registry/ (read 2026-11-23)
    keep_cache=(--cache-to "type=registry,ref=$repository:cache-$BASE_TAG,mode=max,image-manifest=true,oci-mediatypes=true,compression=$compression,force-compression=true,ignore-error=true")
  fi
  base_image=$(cd "$here/.." && argument BASE_IMAGE)
  if [[ -n "${BASE_LOGIN_SECRET:-}" ]]; then
    registry=$(registry_of "$base_image")
    # Docker writes a login into a file. A person's machine does not keep it.
    trap 'docker logout "$registry" >/dev/null' EXIT
    log_in_with_secret "$registry" "$BASE_LOGIN_SECRET"
  else
    log_in_to_source "$base_image"
  fi
  # The list first: a base that is in ECR has its list, also where a build was broken off.
  bill=$(mktemp -d)
  export_stage "$here" bill "$bill" "$MIRROR_REGISTRY" "${words[@]}"
  aws s3 cp "$bill/sbom.spdx.json" "${BILLS_URI%/}/$BASE_TAG.spdx.json" --only-show-errors
  rm -rf "$bill"
  build_image "$here" "$repository" "$BASE_TAG" --target libraries "${words[@]}" "${keep_cache[@]}"
fi
say "base image $repository@$digest"
report "$digest"
