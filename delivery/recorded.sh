# shellcheck shell=bash
# What the first copy of a chart or an image was, where delivery/mirror.lock.yaml does not have it: its SHA-256 is recorded in the
# bucket, which outlives the registry. A later copy that is another is refused. Sourced after lib.sh.

# must_be_recorded MIRROR_BUCKET_URI NAME DIGEST SOURCE: records `sha256:…` for a name, or compares it with what is recorded. The
# stage may not list the objects of the bucket, and S3 answers it for an object that is absent as for one that it may not read. So the
# stage writes first. S3 takes one write of several with this condition:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html (read 2026-11-24)
must_be_recorded() {
  local record=${1%/}/digests/${2//\//.}.sha256 file said before
  local bucket=${record#s3://}
  [[ "$3" =~ ^sha256:[0-9a-f]{64}$ ]] || fail "$4 has no digest, but '$3': nothing is copied that cannot be told from another"
  file=$(mktemp)
  printf '%s' "$3" >"$file"
  if said=$(aws s3api put-object --bucket "${bucket%%/*}" --key "${bucket#*/}" --body "$file" --if-none-match '*' 2>&1); then
    rm -f "$file"
    say "recorded $3 of $4"
    return
  fi
  [[ "$said" == *PreconditionFailed* ]] || fail "the digest of $4 cannot be recorded in $record: $said"
  aws s3 cp "$record" "$file" --only-show-errors || fail "the digest of $4 is recorded in $record, which cannot be read"
  before=$(<"$file")
  rm -f "$file"
  [[ "$before" == "$3" ]] || refuse "$4 is $3, and was $before when it was first copied: somebody has published another under" \
    "the same version. Compare the two. Delete $record to take the new one"
}

# must_be_locked_or_recorded MIRROR_BUCKET_URI CHART VERSION PIN DIGEST SOURCE: compares the `sha256:…` of a chart's archive with the
# PIN of mirror_list.py. Without a pin, which is `-`, it records or compares the digest as must_be_recorded does.
must_be_locked_or_recorded() {
  if [[ "$4" == - ]]; then
    must_be_recorded "$1" "chart-$2-$3" "$5" "$6"
  else
    [[ "$5" == "sha256:$4" ]] || refuse "$6 is $5, and delivery/mirror.lock.yaml has sha256:$4: somebody has published another" \
      "under the same version. Compare the two. Run \`python -m delivery.refresh_lock --accept $2\` to take the new one"
  fi
}
