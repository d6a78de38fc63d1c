# shellcheck shell=bash
# What every stage shares: log lines that say where they come from, and required parameters. Sourced, never run.

say() {
  printf '[%s] %s\n' "${STAGE:-delivery}" "$*"
}

fail() {
  say "error: $*" >&2
  exit 1
}

# require NAME...: every named environment variable must be set and not empty; all that are not are named at once.
require() {
  local name missing=()
  for name in "$@"; do
    [[ -n "${!name:-}" ]] || missing+=("$name")
  done
  ((${#missing[@]} == 0)) || fail "missing environment variables: ${missing[*]}"
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
