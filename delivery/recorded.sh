# shellcheck shell=bash
# What the first copy of a chart or an image was, where no public source states it: its SHA-256 is recorded in the bucket, which
# outlives the registry. A later copy that is another is refused. Sourced after lib.sh.

# must_be_recorded MIRROR_BUCKET_URI NAME DIGEST SOURCE: compares `sha256:…` with what is recorded for a name, or records it. Two
# stages that record at once have copied from the same source, and the one that comes later compares in its next run.
must_be_recorded() {
  local record=${1%/}/digests/${2//\//.}.sha256 file before
  [[ "$3" =~ ^sha256:[0-9a-f]{64}$ ]] || fail "$4 has no digest, but '$3': nothing is copied that cannot be told from another"
  file=$(mktemp)
  # Fetched, not listed: the stage may read the objects of the bucket, and may not list them.
  if aws s3 cp "$record" "$file" --only-show-errors 2>/dev/null; then
    before=$(<"$file")
    rm -f "$file"
    [[ "$before" == "$3" ]] || refuse "$4 is $3, and was $before when it was first copied: somebody has published another under" \
      "the same version. Compare the two. Delete $record to take the new one"
    return
  fi
  printf '%s' "$3" >"$file"
  aws s3 cp "$file" "$record" --only-show-errors
  rm -f "$file"
  say "recorded $3 of $4"
}
