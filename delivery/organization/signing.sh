# shellcheck shell=bash
# Lets ECR sign what is pushed to a repository. Sourced by image.sh, after lib.sh. ECR signs with the rights of whoever pushes, by
# rules of the registry, which all repositories of the account and Region share.
# https://docs.aws.amazon.com/AmazonECR/latest/userguide/managed-signing.html (read 2026-11-23)
#
#   SIGNING_PROFILE   ARN of the signing profile of the repository | none: the repository has no rule | empty: nothing is asked
#   SIGNING_SECONDS   how long ECR may take to sign (default 300)

# signing_rule REPOSITORY: writes the rule of the repository, or removes it. The other rules of the registry stay as they are.
signing_rule() {
  local rules merged errors
  [[ -n "${SIGNING_PROFILE:-}" ]] || return 0
  errors=$(mktemp)
  if ! rules=$(aws ecr get-signing-configuration --query signingConfiguration --output json 2>"$errors"); then
    if grep --quiet 'Invalid choice\|argument operation' "$errors"; then
      refuse "the AWS CLI of this builder does not know ECR's managed signing. Remove the key \`sign\` of the image"
    fi
    grep --quiet SigningConfigurationNotFoundException "$errors" ||
      fail "ECR does not show the signing rules of the registry: $(tail -n 1 "$errors")"
    rules='{"rules": []}'
  fi
  rm -f "$errors"
  merged=$(python3 "$(dirname "${BASH_SOURCE[0]}")/signing_rules.py" "$1" "$SIGNING_PROFILE" <<<"$rules") || exit "$REFUSED"
  [[ -n "$merged" ]] || return 0
  aws ecr put-signing-configuration --signing-configuration "$merged" >/dev/null
  say "signing rule of $1: $SIGNING_PROFILE"
}

# signed REPOSITORY DIGEST PUSHED: waits for the signature of an image. PUSHED is empty if this build did not push it. An image
# that this build pushed and that is not signed is deleted, because only another push can sign it.
signed() {
  local state end=$((SECONDS + ${SIGNING_SECONDS:-300}))
  [[ -n "${SIGNING_PROFILE:-}" && "$SIGNING_PROFILE" != none ]] || return 0
  while :; do
    # https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_ImageSigningStatus.html (read 2026-11-23)
    state=$(aws ecr describe-image-signing-status --repository-name "$1" --image-id "imageDigest=$2" --output text \
      --query "signingStatuses[?signingProfileArn=='$SIGNING_PROFILE'] | [0].[status, failureReason]")
    if [[ "$state" == COMPLETE* ]]; then
      say "$1@$2 is signed"
      return
    fi
    if [[ -z "$3" && "$state" != IN_PROGRESS* ]]; then
      say "$1@$2 was pushed before it was to be signed, and has no signature. \`trainway image rebuild --again\` builds one that has"
      return
    fi
    if [[ "$state" == FAILED* ]] || ((SECONDS >= end)); then
      [[ -z "$3" ]] || aws ecr batch-delete-image --repository-name "$1" --image-ids "imageDigest=$2" >/dev/null
      [[ "$state" != FAILED* ]] || fail "ECR cannot sign $1@$2: ${state#FAILED}"
      fail "ECR has not signed $1@$2 within ${SIGNING_SECONDS:-300} s"
    fi
    sleep 5
  done
}
