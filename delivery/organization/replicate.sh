# shellcheck shell=bash
# Copies the training image to other Regions and accounts. Sourced by image.sh, after lib.sh and registry_login.sh.
#
#   REPLICATE_TO   registries with spaces between, <account>.dkr.ecr.<region>.amazonaws.com; may be empty

# replicate REPOSITORY_URI TAG DIGEST: copies an image byte for byte under the same name and tag to each registry that lacks it.
replicate() {
  local name=${1#*/} own=${1%%.*} account region registry there
  local -a registries
  read -r -a registries <<<"${REPLICATE_TO:-}"
  ((${#registries[@]})) || return 0
  aws ecr get-login-password --region "$AWS_REGION" | docker login --username AWS --password-stdin "${1%%/*}"
  for registry in "${registries[@]}"; do
    [[ "$registry" =~ ^([0-9]{12})\.dkr\.ecr\.([a-z0-9-]+)\. ]] || refuse "REPLICATE_TO has '$registry', which is no registry of ECR"
    account=${BASH_REMATCH[1]} region=${BASH_REMATCH[2]}
    there=$(digest_there "$account" "$region" "$name" "$2") ||
      fail "image.replicate: $registry/$name cannot be asked: the role needs ecr:DescribeImages on it, which in another account" \
        "the policy of the repository gives"
    if [[ "$there" == missing ]]; then
      [[ "$account" == "$own" ]] || fail "image.replicate: account $account has no repository $name in $region. Create it there," \
        "with a policy that lets this account push"
      aws ecr create-repository --region "$region" --repository-name "$name" --image-tag-mutability IMMUTABLE \
        --image-scanning-configuration scanOnPush=true --encryption-configuration encryptionType=KMS >/dev/null
      say "created the repository $registry/$name"
    fi
    if [[ "$there" == "$3" ]]; then
      say "$registry/$name:$2 exists"
      continue
    fi
    [[ "$there" != sha256:* ]] || refuse "image.replicate: $registry/$name:$2 is another image, $there. Delete that image, or its tag"
    log_in_to_source "$registry/$name"
    docker buildx imagetools create --prefer-index=false --tag "$registry/$name:$2" "$1@$3"
    say "copied to $registry/$name:$2"
  done
}

# digest_there ACCOUNT REGION REPOSITORY TAG: prints the digest of a tag, `none` without the tag, or `missing` without the
# repository. Fails if ECR refuses to say.
digest_there() {
  local errors found
  errors=$(mktemp)
  if found=$(aws ecr describe-images --repository-name "$3" --image-ids "imageTag=$4" --registry-id "$1" --region "$2" \
    --query 'imageDetails[0].imageDigest' --output text 2>"$errors"); then
    printf '%s' "$found"
  elif grep --quiet RepositoryNotFoundException "$errors"; then
    printf missing
  elif grep --quiet ImageNotFoundException "$errors"; then
    printf none
  else
    cat "$errors" >&2
    rm -f "$errors"
    return 1
  fi
  rm -f "$errors"
}
