# shellcheck shell=bash
# Logs in to the registries that images are fetched from. Sourced after lib.sh.

# log_in_to_source REFERENCE: logs in to the ECR registry of an image with the credentials of this machine or build, for another
# account's, and for those of AWS's own accounts, which let in whoever has an AWS account. Other registries need no login.
# https://docs.aws.amazon.com/eks/latest/userguide/copy-image-to-repository.html (read 2026-11-21)
log_in_to_source() {
  [[ "$1" =~ ^([0-9]{12}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?)/ ]] || return 0
  aws ecr get-login-password --region "${BASH_REMATCH[2]}" | docker login --username AWS --password-stdin "${BASH_REMATCH[1]}" ||
    fail "cannot log in to ${BASH_REMATCH[1]}: the role needs ecr:GetAuthorizationToken"
}

# registry_of REFERENCE: prints the registry of an image, which is Docker Hub if the name has none.
# https://github.com/distribution/reference/blob/main/normalize.go (read 2026-11-23)
registry_of() {
  local first=${1%%/*}
  if [[ "$1" == */* && ("$first" == *.* || "$first" == *:* || "$first" == localhost) ]]; then
    printf '%s' "$first"
  else
    printf docker.io
  fi
}

# read_secret SECRET_ARN KEY: prints a login, {"username": "…", "password": "…"}, which the KEY of the platform file names.
read_secret() {
  local value region
  # The secret can be in another Region than the platform.
  IFS=: read -r _ _ _ region _ <<<"$1"
  value=$(mktemp)
  if ! aws secretsmanager get-secret-value --secret-id "$1" --region "$region" --query SecretString --output text >"$value"; then
    rm -f "$value"
    fail "a login cannot be read: $2.secret names $1, and the role needs secretsmanager:GetSecretValue on it, and kms:Decrypt" \
      "on its key, which is $2.key"
  fi
  if ! python3 -c 'import json, sys
value = json.load(open(sys.argv[1]))
sys.exit(not (value["username"] and value["password"]))' "$value" 2>/dev/null; then
    rm -f "$value"
    refuse "the value of $1 is not a login: write {\"username\": \"…\", \"password\": \"…\"} into the secret"
  fi
  cat "$value"
  rm -f "$value"
}

# log_in_with_secret REGISTRY SECRET_ARN [KEY]: logs in with the user name and the password of a secret, which the KEY of the
# platform file names, by default image.base_login. The password is in no argument and no log.
log_in_with_secret() {
  local login username key=${3:-image.base_login}
  login=$(read_secret "$2" "$key") || exit
  username=$(python3 -c 'import json, sys
print(json.load(sys.stdin)["username"])' <<<"$login")
  python3 -c 'import json, sys
sys.stdout.write(json.load(sys.stdin)["password"])' <<<"$login" |
    docker login --username "$username" --password-stdin "$1" || fail "$1 refuses the login of $2, which $key names"
}
