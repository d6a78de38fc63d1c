#!/usr/bin/env bash
# Fetch the platform's teams, and apply them to Slurm: `slurm_accounts.sh S3_URI REGION`. systemd runs this regularly on
# the controller, so that a change of teams requires no new node.
#   SLURM_HOME   where HyperPod has Slurm (default /opt/slurm)
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-slurm-api-config-migration.html, Step 1 (read 2026-11-21)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
slurm=${SLURM_HOME:-/opt/slurm}
export PATH=$PATH:$slurm/bin:/usr/local/bin
document=$(mktemp)
trap 'rm -f "$document"' EXIT

aws s3 cp "$1" "$document" --region "$2" --only-show-errors
python3 "$here/slurm_accounts.py" "$document" "$slurm/etc/slurm.conf"
