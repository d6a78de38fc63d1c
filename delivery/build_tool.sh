# shellcheck shell=bash
# Builds container/Dockerfile, or a stage of it, with the arguments of image.json, which the deploy puts into the repository's
# root. Sourced by what pushes the result to ECR, after lib.sh, registry_login.sh, and organization/network.sh.

# builder_has_cache: whether the builder can export a cache and compress layers by zstd: Docker with its containerd image store.
# https://docs.docker.com/build/cache/backends/ (read 2026-11-23)
builder_has_cache() {
  docker info --format '{{json .DriverStatus}}' 2>/dev/null | grep --quiet io.containerd.snapshotter.v1
}

# choose_builder: in CodeBuild, starts a second Docker daemon with the containerd image store, which the first one leaves off.
# Where it does not start, builds continue with the first: without a cache, and with layers compressed by gzip.
# https://github.com/aws/aws-codebuild-docker-images/blob/master/ubuntu/standard/8.0/dockerd-entrypoint.sh (read 2026-11-23)
choose_builder() {
  local socket=/var/run/trainway-builds.sock data=${BUILDER_DATA:-/var/lib/docker/trainway-builds} try
  if [[ -z "${CODEBUILD_BUILD_ID:-}" ]] || { builder_has_cache && ! has_organization; }; then
    return
  fi
  mkdir -p "$data"
  printf '{"features": {"containerd-snapshotter": true}}\n' >"$data.json"
  # Builds use the host's network, so that two daemons need not share a bridge and its rules.
  dockerd --config-file "$data.json" --data-root "$data" --exec-root "$data.run" --pidfile "$data.pid" \
    --host "unix://$socket" --bridge=none --iptables=false --ip6tables=false >"$data.log" 2>&1 &
  for ((try = 0; try < 30; try++)); do
    if DOCKER_HOST=unix://$socket builder_has_cache; then
      export DOCKER_HOST=unix://$socket
      return
    fi
    sleep 1
  done
  # The first daemon started without the proxy and the authorities.
  ! has_organization || fail "no builder that knows network.proxy and the certificates: $(tail -n 1 "$data.log")"
  say "no builder with a cache: $(tail -n 1 "$data.log")"
}

# argument NAME: prints an argument of image.json in the working directory, or nothing.
argument() {
  python3 -c 'import json, sys; print(json.load(open("image.json")).get(sys.argv[1], ""))' "$1"
}

# image_context DELIVERY_DIRECTORY: copies what container/Dockerfile may use, and leaves the copy in `context`, and the
# arguments in `words`. The directory becomes the repository's root.
image_context() {
  cd "$1/.." || return
  words=$(python3 "$1/build_arguments.py" image.json) || return
  mapfile -t words <<<"$words"
  context=$(mktemp -d)
  cp -R container pyproject.toml "$context"
  [[ ! -d training ]] || cp -R training "$context"
  # A copied file keeps its permissions in the image, and the same content is to be the same layer.
  chmod -R u=rwX,go=rX "$context"
}

# export_stage DELIVERY_DIRECTORY STAGE TARGET_DIRECTORY REGISTRY [WORD...]: builds a stage, and writes its files.
export_stage() {
  local words context
  image_context "$1" || return
  run_buildx "$context" container/Dockerfile "$4" --output "type=local,dest=$3" "${words[@]}" --target "$2" "${@:5}"
}

# build_image DELIVERY_DIRECTORY REPOSITORY_URI TAG [WORD...]: builds with the words given to buildx, pushes,
# and leaves the digest in `digest`.
build_image() {
  local words context
  image_context "$1" || return
  build_context "$context" container/Dockerfile "$2" "$3" "${words[@]}" "${@:4}"
}

# build_on_base: as build_image, for a stage that runs nothing on its base and copies with --link. The builder fetches no file of
# the base. Docker's image store would unpack the image, and so fetch all of it: store=false keeps the image out of the store.
# BuildKit then pushes it. `push` without a value means true to BuildKit, and buildx, which would have Docker push what its store
# lacks, leaves it alone. A builder that does otherwise pushes nothing, and the image is built in the usual way.
# https://github.com/moby/buildkit/blob/v0.13.2/exporter/containerimage/export.go
# https://github.com/docker/buildx/blob/v0.13.1/build/build.go
build_on_base() {
  if builder_has_cache; then
    ! PUSH_ONLY=yes build_image "$@" || return 0
    say "the builder pushed no image without its base; it now fetches the base"
  fi
  build_image "$@"
}

# build_context DIRECTORY FILE REPOSITORY_URI TAG [WORD...]: builds a Dockerfile, which is below the directory or has an
# absolute path, pushes, and leaves the digest in `digest`. Keeps what the image was made of at BILLS_URI, by the digest.
# Deletes the directory.
build_context() {
  local output=type=image,push=true root files started facts file=$2
  root=$(dirname "${BASH_SOURCE[0]}")/..
  [[ "$file" == /* ]] || file=$1/$file
  files=$(python3 "$root/delivery/provenance.py" files "$1" "$file") || return
  started=$(date --utc +%Y-%m-%dT%H:%M:%SZ)
  facts=$(mktemp -d)
  # force-compression, because enroot reads all layers of an image as it does the first:
  # https://github.com/NVIDIA/enroot/blob/v4.1.2/src/docker.sh (read 2026-11-23)
  [[ -z "${PUSH_ONLY:-}" ]] || output=type=image,push=,store=false
  ! builder_has_cache || output+=,compression=$(cd "$root" && argument LAYER_COMPRESSION),force-compression=true,oci-mediatypes=true
  run_buildx "$1" "$2" "${3%%/*}" --tag "$3:$4" --output "$output" --metadata-file "$facts/metadata.json" "${@:5}" || return
  digest=$(ecr_digest "${3#*/}" "$4")
  [[ -n "$digest" || -n "${PUSH_ONLY:-}" ]] || fail "pushed $3:$4, but ECR does not list it"
  [[ -n "$digest" ]] || return
  python3 "$root/delivery/provenance.py" statement "$3" "$4" "$digest" "$files" "$facts/metadata.json" "$started" "${@:5}" \
    >"$facts/provenance.json" || return
  aws s3 cp "$facts/provenance.json" "${BILLS_URI%/}/${digest#sha256:}.provenance.json" --only-show-errors ||
    fail "what $3:$4 was made of is not kept at $BILLS_URI; the lines above say why"
  rm -rf "$facts"
}

# run_buildx DIRECTORY FILE REGISTRY WORD...: logs in to the registry, and builds a Dockerfile. Deletes the directory.
run_buildx() {
  local file=$2 root organization pip_settings failed=0
  root=$(dirname "${BASH_SOURCE[0]}")/..
  [[ "$file" == /* ]] || file=$1/$file
  # A copied file keeps its time in the image.
  find "$1" -exec touch --no-dereference --date="@$(cd "$root" && argument SOURCE_DATE_EPOCH)" {} +
  aws ecr get-login-password --region "$AWS_REGION" | docker login --username AWS --password-stdin "$3"
  organization_words
  # No provenance attestation: it makes an index of the image, whose digest then is not the one that nodes resolve. BuildKit's
  # provenance is in the file of metadata instead; `min` leaves out the arguments of the build, which can have a password.
  # https://docs.docker.com/build/building/variables/#buildx_metadata_provenance (read 2026-11-23)
  BUILDX_METADATA_PROVENANCE=min docker buildx build --platform linux/amd64 --network host --provenance=false --progress=plain \
    --file "$file" "${organization[@]}" "${@:4}" "$1" || failed=$?
  # The file can have a password.
  rm -rf "$1" "$pip_settings"
  return "$failed"
}
