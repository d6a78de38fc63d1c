#!/usr/bin/env bash
# Builds container/Dockerfile and pushes it to ECR under the hash of what it is built from; a tag that exists is not built again.
#
#   IMAGE_REPOSITORY   repository URI, <account>.dkr.ecr.<region>.amazonaws.com/<name>
#   IMAGE_TAG          hash of the build context; tags are immutable
#   AWS_REGION         region of the repository
# Reports the image's digest.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
require IMAGE_REPOSITORY IMAGE_TAG AWS_REGION
registry=${IMAGE_REPOSITORY%%/*}
name=${IMAGE_REPOSITORY#*/}

digest=$(ecr_digest "$name" "$IMAGE_TAG")
if [[ -n "$digest" ]]; then
  say "$IMAGE_REPOSITORY:$IMAGE_TAG exists, nothing to build"
else
  cd "$here/.."
  arguments=$(python3 "$here/build_arguments.py" container/versions.yaml)
  mapfile -t arguments <<<"$arguments"
  aws ecr get-login-password --region "$AWS_REGION" | docker login --username AWS --password-stdin "$registry"
  # No provenance attestation: it makes an index of the image, whose digest then is not the one that nodes resolve.
  docker buildx build --platform linux/amd64 --provenance=false --push --progress=plain \
    --file container/Dockerfile --tag "$IMAGE_REPOSITORY:$IMAGE_TAG" \
    "${arguments[@]}" --build-arg "IMAGE_REVISION=$IMAGE_TAG" .
  digest=$(ecr_digest "$name" "$IMAGE_TAG")
  [[ -n "$digest" ]] || fail "pushed $IMAGE_REPOSITORY:$IMAGE_TAG, but ECR does not list it"
fi
say "image $IMAGE_REPOSITORY@$digest"
report "$digest"
