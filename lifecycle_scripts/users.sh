#!/usr/bin/env bash
# Fetch the platform's users, and apply them to this node's accounts: `users.sh S3_URI REGION`. systemd runs this
# regularly on every node, so that a new, changed, or removed user requires no new node.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH=$PATH:/usr/sbin:/sbin:/usr/local/bin
document=$(mktemp)
trap 'rm -f "$document"' EXIT

aws s3 cp "$1" "$document" --region "$2" --only-show-errors
python3 "$here/users.py" "$document"
