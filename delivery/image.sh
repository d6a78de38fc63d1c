#!/usr/bin/env bash
# Builds the stage `training` of container/Dockerfile on the base of base.sh, and pushes it to ECR under the hash of what it is
# built from; a tag that exists is not built again.
#
#   IMAGE_REPOSITORY   repository URI, <account>.dkr.ecr.<region>.amazonaws.com/<name>
#   IMAGE_TAG          hash of what the image is built from; tags are immutable
#   AWS_REGION         region of the repository
#   NETWORK_ACCESS     private (default) | closed: who makes the base, the stage before this one or supply.sh
#   MIRROR_REGISTRY, MIRROR_PREFIX, BASE_TAG   as for base.sh
#   REPLICATE_TO       registries that the image is copied to, with spaces between; may be empty: see organization/replicate.sh
#   SIGNING_PROFILE    signing profile of the repository, or none; may be empty: see organization/signing.sh
#   BILLS_URI          s3://bucket/prefix that keeps what each image was made of, by the image's digest
#   IMAGE_AGAIN        no (default) | a word that is added to the tag, for a second image of the same content
# Reports the image's digest.
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
# shellcheck source=delivery/organization/replicate.sh
source "$here/organization/replicate.sh"
# shellcheck source=delivery/organization/signing.sh
source "$here/organization/signing.sh"
closed || true # ends with an unknown word
require IMAGE_REPOSITORY IMAGE_TAG AWS_REGION MIRROR_REGISTRY MIRROR_PREFIX BASE_TAG BILLS_URI

[[ "${IMAGE_AGAIN:-no}" == no ]] || IMAGE_TAG=$IMAGE_TAG-$IMAGE_AGAIN
# ECR signs an image when it is pushed.
signing_rule "${IMAGE_REPOSITORY#*/}"
pushed=
digest=$(ecr_digest "${IMAGE_REPOSITORY#*/}" "$IMAGE_TAG")
if [[ -n "$digest" ]]; then
  say "$IMAGE_REPOSITORY:$IMAGE_TAG exists, nothing to build"
else
  base=$MIRROR_PREFIX/training-base
  base_digest=$(ecr_digest "$base" "$BASE_TAG")
  if [[ -z "$base_digest" ]]; then
    ! closed || unsupplied "image $base:$BASE_TAG"
    fail "ECR does not list the base image $base:$BASE_TAG, which the stage before this one builds. Deploy the image stack again"
  fi
  choose_builder
  # A context of a stage's name takes the place of that stage; those before it are then not built, nor is their base fetched.
  # https://docs.docker.com/reference/cli/docker/buildx/build/#build-context
  build_on_base "$here" "$IMAGE_REPOSITORY" "$IMAGE_TAG" --build-arg "IMAGE_REVISION=$IMAGE_TAG" \
    --build-context "libraries=docker-image://$MIRROR_REGISTRY/$base@$base_digest"
  pushed=yes
fi
signed "${IMAGE_REPOSITORY#*/}" "$digest" "$pushed"
replicate "$IMAGE_REPOSITORY" "$IMAGE_TAG" "$digest"
say "image $IMAGE_REPOSITORY@$digest"
report "$digest"
