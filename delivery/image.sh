#!/usr/bin/env bash
# Builds container/Dockerfile and pushes it to ECR under the hash of what it is built from; a tag that exists is not built again.
#
#   IMAGE_REPOSITORY   repository URI, <account>.dkr.ecr.<region>.amazonaws.com/<name>
#   IMAGE_TAG          hash of the build context; tags are immutable
#   AWS_REGION         region of the repository
#   NETWORK_ACCESS     private (default) | closed: only what follows the stage `python` is built, on the image of base_image.sh
#   MIRROR_REGISTRY, MIRROR_PREFIX, BASE_TAG   as for base_image.sh; only where closed
# Reports the image's digest.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
# shellcheck source=delivery/build_tool.sh
source "$here/build_tool.sh"
required=(IMAGE_REPOSITORY IMAGE_TAG AWS_REGION)
! closed || required+=(MIRROR_REGISTRY MIRROR_PREFIX BASE_TAG)
require "${required[@]}"

digest=$(ecr_digest "${IMAGE_REPOSITORY#*/}" "$IMAGE_TAG")
if [[ -n "$digest" ]]; then
  say "$IMAGE_REPOSITORY:$IMAGE_TAG exists, nothing to build"
else
  words=(--build-arg "IMAGE_REVISION=$IMAGE_TAG")
  if closed; then
    base=$MIRROR_PREFIX/training-base
    base_digest=$(ecr_digest "$base" "$BASE_TAG")
    [[ -n "$base_digest" ]] || unsupplied "image $base:$BASE_TAG"
    # A context of a stage's name takes the place of that stage; those before it are then not built, nor is their base fetched.
    # https://docs.docker.com/reference/cli/docker/buildx/build/#build-context
    words+=(--build-context "python=docker-image://$MIRROR_REGISTRY/$base@$base_digest")
  fi
  build_image "$here" "$IMAGE_REPOSITORY" "$IMAGE_TAG" "${words[@]}"
fi
say "image $IMAGE_REPOSITORY@$digest"
report "$digest"
