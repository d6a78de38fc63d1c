#!/usr/bin/env bash
# Fetch the platform's teams, and apply their roles to this node: `follow.sh S3_URI REGION [FILE_SYSTEM]`. systemd runs
# this regularly on every node, so that a change of teams requires no new node.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH=$PATH:/usr/sbin:/sbin:/usr/local/bin
document=$(mktemp)
trap 'rm -f "$document"' EXIT

aws s3 cp "$1" "$document" --region "$2" --only-show-errors
python3 "$here/follow.py" "$document" "$here" "${@:3}"
