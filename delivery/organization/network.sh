# shellcheck shell=bash
# What an organization's network asks of whoever fetches: its proxy, its authorities, and its package index. Sourced after lib.sh.
#
#   HTTPS_PROXY, HTTP_PROXY, NO_PROXY   the proxy of network.proxy; may be unset
#   PIP_INDEX, PIP_INDEX_SECRET         the address of image.build.pip_index, and the ARN of the secret with the login; may be unset

# Debian's, and that of the Red Hat family.
system_authorities=(/etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt)

# trust_organization DELIVERY_DIRECTORY: makes every tool trust the certificates of lifecycle_scripts/yours/certificates beside
# the authorities of the system, and curl know the proxy. AUTHORITIES becomes the file that has both, or stays empty.
trust_organization() {
  local scripts=$1/../lifecycle_scripts source wrong
  export AUTHORITIES=
  # curl reads the address of an HTTP proxy from the lower-case variable alone. https://curl.se/docs/manpage.html
  for source in HTTPS_PROXY HTTP_PROXY NO_PROXY; do
    [[ -z "${!source:-}" ]] || export "${source,,}=${!source}"
  done
  compgen -G "$scripts/yours/certificates/*.crt" >/dev/null || compgen -G "$scripts/yours/certificates/*.pem" >/dev/null || return 0
  wrong=$(python3 "$scripts/certificates.py" check "$scripts/yours/certificates" 2>&1) ||
    refuse "nobody would trust these certificates:"$'\n'"$wrong"
  organization_files=$(mktemp -d)
  AUTHORITIES=$organization_files/authorities.pem
  for source in "${system_authorities[@]}"; do
    [[ ! -e "$source" ]] || cat "$source"
  done >"$AUTHORITIES"
  # A file may end without a line's end.
  find "$scripts/yours/certificates" \( -name '*.crt' -o -name '*.pem' \) -exec awk 1 {} + >>"$AUTHORITIES"
  # In the order of: curl; git; the AWS CLI; Go's programs and Python's ssl; requests; pip; apt.
  export CURL_CA_BUNDLE=$AUTHORITIES GIT_SSL_CAINFO=$AUTHORITIES AWS_CA_BUNDLE=$AUTHORITIES SSL_CERT_FILE=$AUTHORITIES
  export REQUESTS_CA_BUNDLE=$AUTHORITIES PIP_CERT=$AUTHORITIES APT_CONFIG=$organization_files/apt.conf
  printf 'Acquire::https::CAInfo "%s";\n' "$AUTHORITIES" >"$APT_CONFIG"
}

# has_organization: whether there is a proxy or an authority, which the builder's daemon has to know as well.
has_organization() {
  [[ -n "${HTTPS_PROXY:-}${HTTP_PROXY:-}${AUTHORITIES:-}" ]]
}

# organization_words: leaves in the array `organization` the words that a build of an image takes all of that with. The values are
# in none of the words: the builder reads them from the environment and from files, and keeps them in no layer and no history.
# https://docs.docker.com/reference/dockerfile/#predefined-args
# https://docs.docker.com/build/building/secrets/ (both read 2026-11-23)
organization_words() {
  local name
  organization=() pip_settings=
  for name in HTTPS_PROXY https_proxy HTTP_PROXY http_proxy NO_PROXY no_proxy; do
    [[ -z "${!name:-}" ]] || organization+=(--build-arg "$name")
  done
  [[ -z "${AUTHORITIES:-}" ]] || organization+=(--secret "id=authorities,src=$AUTHORITIES")
  [[ -n "${PIP_INDEX:-}" ]] || return 0
  pip_settings=$(mktemp)
  write_pip_settings "$pip_settings"
  organization+=(--secret "id=pip,src=$pip_settings")
}

# write_pip_settings FILE: tells pip of the index, with the login if it needs one.
write_pip_settings() {
  local login=
  [[ -z "${PIP_INDEX_SECRET:-}" ]] || login=$(read_secret "$PIP_INDEX_SECRET" image.build.pip_login) || exit
  python3 -c 'import json, sys, urllib.parse as parse
address, text = sys.argv[1], sys.stdin.read().strip()
if text:
    value = json.loads(text)
    login = ":".join(parse.quote(value[part], safe="") for part in ("username", "password"))
    parts = parse.urlsplit(address)
    address = parts._replace(netloc=f"{login}@{parts.netloc}").geturl()
print("[global]", f"index-url = {address}", sep="\n")' "$PIP_INDEX" <<<"$login" >"$1"
}
