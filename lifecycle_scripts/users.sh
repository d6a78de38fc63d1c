#!/usr/bin/env bash
# Fetches the platform's users and makes this node's accounts equal to them: `users.sh S3_URI REGION`. systemd runs it on every
# node again and again, so that who comes, goes or changes a key needs no new node.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH=$PATH:/usr/sbin:/sbin:/usr/local/bin
document=$(mktemp)
trap 'rm -f "$document"' EXIT

aws s3 cp "$1" "$document" --region "$2" --only-show-errors
python3 "$here/users.py" "$document"
