#!/usr/bin/env bash
# Sets root squash on the Lustre file system, for which CloudFormation has no property, and waits until it is in force.
#   FSX_ID            the file system
#   ROOT_SQUASH       UID:GID that root of a client becomes; 0:0 ends it
#   NO_SQUASH_NIDS    clients whose root stays root, as in "10.0.1.6@tcp 10.0.[2-10].[1-255]@tcp"; may be empty
#   SQUASH_SECONDS    how long FSx may take (default 600)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
require FSX_ID ROOT_SQUASH
read -ra nids <<<"${NO_SQUASH_NIDS:-}"

# in_force: prints UID:GID and the clients that are exempt, as FSx has them now.
in_force() {
  # shellcheck disable=SC2016 # the quotes are JMESPath's
  aws fsx describe-file-systems --file-system-ids "$FSX_ID" --output text \
    --query 'FileSystems[0].LustreConfiguration.RootSquashConfiguration.[RootSquash, join(`" "`, NoSquashNids || `[]`)]'
}

wanted=$(printf '%s\t%s' "$ROOT_SQUASH" "${nids[*]}")
if [[ "$(in_force)" == "$wanted" ]]; then
  say "root squash is $ROOT_SQUASH already"
  report "$ROOT_SQUASH"
  exit 0
fi
# JSON, because the brackets of a range mean something else in the command line's own notation.
configuration=$(python3 -c 'import json, sys
print(json.dumps({"RootSquashConfiguration": {"RootSquash": sys.argv[1], "NoSquashNids": sys.argv[2:]}}))' \
  "$ROOT_SQUASH" "${nids[@]}")
aws fsx update-file-system --file-system-id "$FSX_ID" --lustre-configuration "$configuration" >/dev/null

deadline=$((SECONDS + ${SQUASH_SECONDS:-600}))
until [[ "$(in_force)" == "$wanted" ]]; do
  ((SECONDS < deadline)) || fail "FSx has not put root squash $ROOT_SQUASH in force within ${SQUASH_SECONDS:-600} s"
  sleep 10
done
say "root squash is $ROOT_SQUASH, but for $(listed "${nids[@]:-nobody}")"
report "$ROOT_SQUASH"
