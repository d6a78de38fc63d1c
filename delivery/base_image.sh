#!/usr/bin/env bash
# Builds the stage `python` of container/Dockerfile, the last one that needs the internet, and pushes it to ECR, where image.sh
# finds it in a closed network; a tag that exists is not built again.
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

repository=$MIRROR_REGISTRY/$MIRROR_PREFIX/training-base
digest=$(ecr_digest "$MIRROR_PREFIX/training-base" "$BASE_TAG")
if [[ -n "$digest" ]]; then
  say "$repository:$BASE_TAG exists, nothing to build"
else
  build_image "$here" "$repository" "$BASE_TAG" --target python
fi
say "base image $repository@$digest"
