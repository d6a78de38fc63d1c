# shellcheck shell=bash
# Builds container/Dockerfile, or a stage of it, with the arguments of image.json, which the deploy puts into the repository's
# root. Sourced by what pushes the result to ECR, after lib.sh.

# builder_has_cache: whether the builder can export a cache and compress layers by zstd: Docker with its containerd image store.
# https://docs.docker.com/build/cache/backends/ (read 2026-11-23)
builder_has_cache() {
  docker info --format '{{json .DriverStatus}}' 2>/dev/null | grep --quiet io.containerd.snapshotter.v1
}

# choose_builder: in CodeBuild, starts a second Docker daemon with the containerd image store, which the first one leaves off.
# Where it does not start, builds go on with the first: without a cache, and with layers compressed by gzip.
# https://github.com/aws/aws-codebuild-docker-images/blob/master/ubuntu/standard/8.0/dockerd-entrypoint.sh (read 2026-11-23)
choose_builder() {
  local socket=/var/run/trainway-builds.sock data=${BUILDER_DATA:-/var/lib/docker/trainway-builds} try
  if builder_has_cache || [[ -z "${CODEBUILD_BUILD_ID:-}" ]]; then
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
  say "no builder with a cache: $(tail -n 1 "$data.log")"
}

# argument NAME: prints an argument of image.json in the working directory, or nothing.
argument() {
  python3 -c 'import json, sys; print(json.load(open("image.json")).get(sys.argv[1], ""))' "$1"
}

# build_image DELIVERY_DIRECTORY REPOSITORY_URI TAG [WORD...]: builds with the words given to buildx, pushes,
# and leaves the digest in `digest`. The directory becomes the repository's root.
build_image() {
  local words context output=type=image,push=true
  cd "$1/.." || return
  words=$(python3 "$1/build_arguments.py" image.json)
  mapfile -t words <<<"$words"
  # force-compression, because enroot reads all layers of an image as it does the first:
  # https://github.com/NVIDIA/enroot/blob/v4.1.2/src/docker.sh (read 2026-11-23)
  ! builder_has_cache || output+=,compression=$(argument LAYER_COMPRESSION),force-compression=true,oci-mediatypes=true
  context=$(mktemp -d)
  cp -R container pyproject.toml "$context"
  [[ ! -d training ]] || cp -R training "$context"
  # A copied file keeps its time and its permissions in the image, and the same content is to be the same layer.
  chmod -R u=rwX,go=rX "$context"
  find "$context" -exec touch --no-dereference --date="@$(argument SOURCE_DATE_EPOCH)" {} +
  aws ecr get-login-password --region "$AWS_REGION" | docker login --username AWS --password-stdin "${2%%/*}"
  # No provenance attestation: it makes an index of the image, whose digest then is not the one that nodes resolve.
  docker buildx build --platform linux/amd64 --network host --provenance=false --progress=plain \
    --file "$context/container/Dockerfile" --tag "$2:$3" --output "$output" "${words[@]}" "${@:4}" "$context"
  rm -rf "$context"
  digest=$(ecr_digest "${2#*/}" "$3")
  [[ -n "$digest" ]] || fail "pushed $2:$3, but ECR does not list it"
}
