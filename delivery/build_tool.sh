# shellcheck shell=bash
# Builds container/Dockerfile, or a stage of it, with the arguments of image.json, which the deploy puts into the repository's
# root. Sourced by what pushes the result to ECR, after lib.sh.

# build_image DELIVERY_DIRECTORY REPOSITORY_URI TAG [WORD...]: builds with the words given to buildx, pushes,
# and leaves the digest in `digest`. The directory becomes the repository's root, which is the build context.
build_image() {
  local words
  cd "$1/.." || return
  words=$(python3 "$1/build_arguments.py" image.json)
  mapfile -t words <<<"$words"
  aws ecr get-login-password --region "$AWS_REGION" | docker login --username AWS --password-stdin "${2%%/*}"
  # No provenance attestation: it makes an index of the image, whose digest then is not the one that nodes resolve.
  docker buildx build --platform linux/amd64 --provenance=false --push --progress=plain \
    --file container/Dockerfile --tag "$2:$3" "${words[@]}" "${@:4}" .
  digest=$(ecr_digest "${2#*/}" "$3")
  [[ -n "$digest" ]] || fail "pushed $2:$3, but ECR does not list it"
}
