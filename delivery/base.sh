#!/usr/bin/env bash
# Builds the stage `libraries` of container/Dockerfile, which has all that changes seldom or needs the internet, and pushes it to
# ECR, where image.sh finds it; a tag that exists is not built again. It is a stage of CodeBuild, and for a closed network
# a part of supply.sh.
#
#   MIRROR_REGISTRY   <account>.dkr.ecr.<region>.amazonaws.com
#   MIRROR_PREFIX     repository prefix; the repository <prefix>/training-base must exist
#   BASE_TAG          hash of what the stage is built from; tags are immutable
#   AWS_REGION        region of the registry
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
# shellcheck source=delivery/build_tool.sh
source "$here/build_tool.sh"
require MIRROR_REGISTRY MIRROR_PREFIX BASE_TAG AWS_REGION

name=$MIRROR_PREFIX/training-base
repository=$MIRROR_REGISTRY/$name
digest=$(ecr_digest "$name" "$BASE_TAG")
if [[ -n "$digest" ]]; then
  say "$repository:$BASE_TAG exists, nothing to build"
else
  choose_builder
  words=(--target libraries)
  if builder_has_cache; then
    # Tags never move, so each base has a cache of its own, and a build begins with the newest.
    newest=$(aws ecr describe-images --repository-name "$name" --filter tagStatus=TAGGED --output text \
      --query 'reverse(sort_by(imageDetails, &imagePushedAt))[].imageTags[]' | tr '\t' '\n' | grep -m1 '^cache-' || true)
    compression=$(cd "$here/.." && argument LAYER_COMPRESSION)
    [[ -z "$newest" ]] || words+=(--cache-from "type=registry,ref=$repository:$newest")
    # image-manifest and oci-mediatypes: what ECR stores of a cache. ignore-error: an image without its cache is whole.
    # https://aws.amazon.com/blogs/containers/announcing-remote-cache-support-in-amazon-ecr-for-buildkit-clients/
    # https://docs.docker.com/build/cache/backends/registry/ (read 2026-11-23)
    words+=(--cache-to "type=registry,ref=$repository:cache-$BASE_TAG,mode=max,image-manifest=true,oci-mediatypes=true,compression=$compression,force-compression=true,ignore-error=true")
  fi
  build_image "$here" "$repository" "$BASE_TAG" "${words[@]}"
fi
say "base image $repository@$digest"
report "$digest"
