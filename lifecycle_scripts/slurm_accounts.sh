#!/usr/bin/env bash
# Fetches the platform's teams and makes Slurm equal to them: `slurm_accounts.sh S3_URI REGION`. systemd runs it on the
# controller again and again, so that a change of teams needs no new node.
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
