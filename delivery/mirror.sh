#!/usr/bin/env bash
# Copies charts of delivery/mirror.yaml and their images into ECR, and manifests into the bucket; what is there already is
# left alone.
#
#   MIRROR_REGISTRY     <account>.dkr.ecr.<region>.amazonaws.com
#   MIRROR_PREFIX       repository prefix; the repositories <prefix>/<image> and <prefix>/charts/<chart> must exist
#   MIRROR_BUCKET_URI   s3://bucket/prefix that keeps the pinned helm and the manifests for the cluster stage, and the digests of
#                       first copies
#   CHARTS              the names of the charts, with spaces between; empty for none
#   AWS_REGION          region of the registry
#   DOCKER_HUB_SECRET   ARN of the secret of kubernetes.docker_hub_login; unset or empty without that key
#   RUN_AI_SECRET       as for run_ai.sh
#   NETWORK_ACCESS      private (default) | closed: nothing is copied; everything must be there already (see supply.sh)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
# shellcheck source=delivery/helm_tool.sh
source "$here/helm_tool.sh"
# shellcheck source=delivery/registry_login.sh
source "$here/registry_login.sh"
# shellcheck source=delivery/organization/network.sh
source "$here/organization/network.sh"
# shellcheck source=delivery/recorded.sh
source "$here/recorded.sh"
# shellcheck source=delivery/signatures.sh
source "$here/signatures.sh"
# shellcheck source=delivery/build_tool.sh
source "$here/build_tool.sh"
# shellcheck source=delivery/run_ai.sh
source "$here/run_ai.sh"
trust_organization "$here"
require MIRROR_REGISTRY MIRROR_PREFIX MIRROR_BUCKET_URI AWS_REGION
[[ -v CHARTS ]] || fail "missing environment variables: CHARTS"
read -r -a names <<<"$CHARTS"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tools"
missing=()
if closed; then
  copy=$(helm_copy "$MIRROR_BUCKET_URI" "$here")
  # Fetched, not listed: the stage may read the objects of the bucket, and may not list them.
  aws s3 cp "$copy" "$work/tools/" --only-show-errors || missing+=("helm ($copy)")
else
  # Its daemon is who logs in.
  ! has_organization || choose_builder
  use_helm "$MIRROR_BUCKET_URI" "$work/tools" "$here"
  password=$(aws ecr get-login-password --region "$AWS_REGION")
  docker login --username AWS --password-stdin "$MIRROR_REGISTRY" <<<"$password"
  helm registry login --username AWS --password-stdin "$MIRROR_REGISTRY" <<<"$password"
fi

copied=0
# Both lists, before anything is copied: they are not printed if the lock has other versions.
images=$(python3 "$here/mirror_list.py" images "${names[@]}")
chart_list=$(python3 "$here/mirror_list.py" charts "${names[@]}")
# The lists are on a descriptor of their own: a command in the loop could read them off standard input. An empty list is
# one line, which is empty.
while IFS=$'\t' read -r -u 3 name source tag && [[ -n "$name" ]]; do
  digest=$(ecr_digest "$MIRROR_PREFIX/$name" "$tag")
  [[ -z "$digest" ]] || continue
  if closed; then
    missing+=("image $MIRROR_PREFIX/$name:$tag")
    continue
  fi
  say "image $source"
  log_in_to_source "$source"
  if [[ -n "${DOCKER_HUB_SECRET:-}" && "$(registry_of "$source")" == docker.io ]]; then
    # Docker writes a login into a file. A person's machine does not keep it.
    trap 'rm -rf "$work"; docker logout docker.io >/dev/null' EXIT
    log_in_with_secret docker.io "$DOCKER_HUB_SECRET" kubernetes.docker_hub_login
  fi
  if [[ "$source" != *@* ]]; then
    # https://docs.docker.com/reference/cli/docker/buildx/imagetools/inspect/ (read 2026-11-24)
    digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$source")
    must_be_recorded "$MIRROR_BUCKET_URI" "image-$name-$tag" "$digest" "$source"
    # What was compared is what is copied.
    source=${source%:*}@$digest
  fi
  must_be_signed "$MIRROR_BUCKET_URI" "$work/tools" "$here" "$name" "$tag" "$source"
  # From registry to registry, byte for byte: every platform, and the digest stays the same.
  docker buildx imagetools create --prefer-index=false --tag "$MIRROR_REGISTRY/$MIRROR_PREFIX/$name:$tag" "$source"
  copied=$((copied + 1))
done 3<<<"$images"

# chart_archive CHART VERSION KIND LOCATION COMMIT DIRECTORY: leaves the packed chart in $work/charts.
chart_archive() {
  local destination=$work/charts
  rm -rf "$destination"
  mkdir "$destination"
  case $3 in
    repository)
      if [[ "$1" == runai-cluster ]]; then
        pull_run_ai "$here" "$1" "$4" "$2" "$destination"
        return
      fi
      helm pull "$1" --repo "$4" --version "$2" --destination "$destination"
      ;;
    oci) helm pull "$4" --version "$2" --destination "$destination" ;;
    git)
      # git checks what it fetched against the commit's own hash.
      local clone=$work/clone
      rm -rf "$clone"
      git init --quiet "$clone"
      git -C "$clone" fetch --quiet --depth 1 "$4" "$5"
      git -C "$clone" checkout --quiet FETCH_HEAD
      helm dependency update "$clone/$6"
      helm package "$clone/$6" --version "$2" --destination "$destination"
      ;;
    *) fail "unknown kind of chart: $3" ;;
  esac
}

while IFS=$'\t' read -r -u 3 chart version kind location pin directory _ && [[ -n "$chart" ]]; do
  if [[ "$kind" == manifest ]]; then
    copy=$(manifest_copy "$MIRROR_BUCKET_URI" "$chart" "$pin")
    # Fetched, not listed, as helm is above.
    ! aws s3 cp "$copy" "$work/manifest.yaml" --only-show-errors || continue
    if closed; then
      missing+=("manifest $chart ($copy)")
      continue
    fi
    say "manifest $chart $version from $location"
    take_pinned "$location" "$pin" "$work/manifest.yaml" "$copy"
    copied=$((copied + 1))
    continue
  fi
  digest=$(ecr_digest "$MIRROR_PREFIX/charts/$chart" "$version")
  [[ -z "$digest" ]] || continue
  if closed; then
    missing+=("chart $MIRROR_PREFIX/charts/$chart:$version")
    continue
  fi
  say "chart $chart $version from $location"
  chart_archive "$chart" "$version" "$kind" "$location" "$pin" "$directory"
  if [[ "$kind" != git ]]; then
    digest=$(sha256sum "$work/charts/"*.tgz)
    must_be_locked_or_recorded "$MIRROR_BUCKET_URI" "$chart" "$version" "$pin" "sha256:${digest%% *}" "$location $version"
  fi
  helm push "$work/charts/"*.tgz "oci://$MIRROR_REGISTRY/$MIRROR_PREFIX/charts"
  copied=$((copied + 1))
done 3<<<"$chart_list"

((${#missing[@]} == 0)) || unsupplied "${missing[@]}"
say "copied $copied of $(printf '%s\n%s\n' "$images" "$chart_list" | wc -l) charts and images"
report "$copied"
