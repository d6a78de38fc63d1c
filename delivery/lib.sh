# shellcheck shell=bash
# What every stage shares: log lines that say where they come from, and required parameters. Sourced, never run.

say() {
  printf '[%s] %s\n' "${STAGE:-delivery}" "$*"
}

fail() {
  say "error: $*" >&2
  exit 1
}

# The exit status of a stage that a second attempt cannot mend: EX_CONFIG of sysexits.h.
readonly REFUSED=78

# refuse WORD...: as fail, for what stays wrong until somebody changes it.
refuse() {
  say "error: $*" >&2
  exit "$REFUSED"
}

# listed THING...: prints them with commas between.
listed() {
  local list
  printf -v list ', %s' "$@"
  printf '%s' "${list:2}"
}

# require NAME...: every named environment variable must be set and not empty; all that are not are named at once.
require() {
  local name missing=()
  for name in "$@"; do
    [[ -n "${!name:-}" ]] || missing+=("$name")
  done
  ((${#missing[@]} == 0)) || refuse "missing environment variables: ${missing[*]}"
}

# closed: whether NETWORK_ACCESS says that nothing but AWS can be reached. Any other word than the two is a mistake.
closed() {
  case ${NETWORK_ACCESS:-private} in
    closed) return 0 ;;
    private) return 1 ;;
    *) refuse "NETWORK_ACCESS is '$NETWORK_ACCESS', expected private or closed" ;;
  esac
}

# unsupplied THING...: ends a stage of a closed network that lacks things which only the internet has.
unsupplied() {
  refuse "a closed network cannot fetch what is missing: $(listed "$@"). Run the command that the image stack prints as its" \
    "output Supply on a machine with the internet, then deploy again"
}

# report VALUE: what this stage tells CloudFormation when it ends well (the Data of its signal).
report() {
  if [[ -n "${STAGE_DATA_FILE:-}" ]]; then
    printf '%s' "$1" >"$STAGE_DATA_FILE"
  fi
}

# ecr_digest REPOSITORY TAG: prints the image's digest, or nothing if the tag does not exist yet.
ecr_digest() {
  local errors digest
  errors=$(mktemp)
  if digest=$(aws ecr describe-images --repository-name "$1" --image-ids "imageTag=$2" \
    --query 'imageDetails[0].imageDigest' --output text 2>"$errors"); then
    printf '%s' "$digest"
  elif ! grep -q ImageNotFoundException "$errors"; then
    cat "$errors" >&2
    rm -f "$errors"
    return 1
  fi
  rm -f "$errors"
}

# manifest_copy MIRROR_BUCKET_URI CHART SHA256: prints where the copy of a chart's manifest is kept.
manifest_copy() {
  printf '%s/manifests/%s-%s.yaml' "${1%/}" "$2" "$3"
}

# take_pinned URL SHA256 FILE COPY: takes a file from the internet, and keeps a copy in S3 for the stages that have none.
take_pinned() {
  curl --fail --silent --show-error --location --retry 3 --max-time 120 --output "$3" "$1"
  must_be "$2" "$3" "$1"
  aws s3 cp "$3" "$4" --only-show-errors
}

# must_be SHA256 FILE ORIGIN: ends the stage where the file is not the pinned one.
must_be() {
  printf '%s  %s\n' "$1" "$2" | sha256sum --check --quiet || fail "the checksum of $3 is not the pinned one"
}
