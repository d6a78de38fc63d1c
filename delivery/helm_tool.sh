# shellcheck shell=bash
# Puts the pinned helm on PATH. Sourced by the stages that use it, after lib.sh.
#
# The mirror stage has the internet and keeps a copy in S3; the cluster stage may not have it, so it takes the copy. With
# NETWORK_ACCESS closed neither has it, and the copy must be there.

# helm_copy MIRROR_BUCKET_URI DELIVERY_DIRECTORY: prints where the copy of the pinned helm is kept.
helm_copy() {
  local url
  IFS=$'\t' read -r _ url _ < <(python3 "$2/mirror_list.py" tool helm) &&
    tool_copy "$1" "$url"
}

# tool_copy MIRROR_BUCKET_URI URL
tool_copy() {
  printf '%s/tools/%s' "${1%/}" "${2##*/}"
}

# use_helm MIRROR_BUCKET_URI DIRECTORY DELIVERY_DIRECTORY
use_helm() {
  local version url sum archive copy
  IFS=$'\t' read -r version url sum < <(python3 "$3/mirror_list.py" tool helm)
  archive=$2/${url##*/}
  copy=$(tool_copy "$1" "$url")
  if ! aws s3 cp "$copy" "$archive" --only-show-errors; then
    ! closed || unsupplied "helm ($copy)"
    say "helm $version is not in the mirror yet, taking it from $url"
    take_pinned "$url" "$sum" "$archive" "$copy"
  fi
  must_be "$sum" "$archive" "$copy"
  tar --extract --gzip --file "$archive" --directory "$2" --strip-components=1
  export PATH=$2:$PATH
  # Registry credentials and caches of this run only.
  export HELM_CONFIG_HOME=$2/config HELM_CACHE_HOME=$2/cache HELM_DATA_HOME=$2/data
}
