# shellcheck shell=bash
# Verifies the signatures of images before they are copied for the first time. delivery/mirror.yaml says who signs which image.
# Sourced after lib.sh.

# use_cosign MIRROR_BUCKET_URI DIRECTORY DELIVERY_DIRECTORY: leaves the pinned cosign in the directory, and a copy in S3.
use_cosign() {
  local version url sum copy
  [[ ! -x "$2/cosign" ]] || return 0
  IFS=$'\t' read -r version url sum < <(python3 "$3/mirror_list.py" tool cosign)
  copy=${1%/}/tools/${url##*/}-$version
  if ! aws s3 cp "$copy" "$2/cosign" --only-show-errors; then
    say "cosign $version is not in the mirror yet, taking it from $url"
    take_pinned "$url" "$sum" "$2/cosign" "$copy"
  fi
  must_be "$sum" "$2/cosign" "$copy"
  chmod +x "$2/cosign"
}

# must_be_signed MIRROR_BUCKET_URI DIRECTORY DELIVERY_DIRECTORY NAME TAG REPOSITORY@DIGEST: ends the stage if the publisher signs
# the image, and this one has no such signature. Records the digest with the signer, and does not ask again for that digest.
# https://kubernetes.io/docs/tasks/administer-cluster/verify-signed-images (read 2026-11-27)
must_be_signed() {
  local words record file digest=${6#*@}
  words=$(python3 "$3/mirror_list.py" signer "$4")
  [[ -n "$words" ]] || return 0
  mapfile -t words <<<"$words"
  record=${1%/}/digests/image-${4//\//.}-$5.signature
  file=$(mktemp)
  if ! aws s3 cp "$record" "$file" --only-show-errors 2>/dev/null || [[ "$(head -n 1 "$file")" != "$digest" ]]; then
    use_cosign "$1" "$2" "$3"
    "$2/cosign" verify "${words[@]}" "$6" >/dev/null ||
      fail "the signature of $6 cannot be verified (${words[*]}); the lines above say why. If Sigstore cannot be reached, let the" \
        "stage reach it. If you trust this image without its signature, write $digest into the object $record"
    printf '%s\n' "$digest" "${words[@]}" >"$file"
    aws s3 cp "$file" "$record" --only-show-errors
    say "verified the signature of $6"
  fi
  rm -f "$file"
}
