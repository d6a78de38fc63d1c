#!/usr/bin/env bash
# Reports a stage's end to CloudFormation: signal.sh SUCCESS|FAILURE REASON LOG_FILE DATA_FILE
#
#   WAIT_HANDLE_URL   presigned URL of the AWS::CloudFormation::WaitConditionHandle
#   STAGE             the stage's name, sent as UniqueId: the same signal sent twice counts once
#   SIGNAL_RETRIES    how often a refused signal is sent again, after 1, 2, 4 … seconds (default 6)
#
# The URL is signed for an empty Content-Type, so none may be sent.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-waitcondition.html (read 2026-11-21)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
require WAIT_HANDLE_URL STAGE

body=$(mktemp)
trap 'rm -f "$body"' EXIT
python3 "$here/signal_body.py" "$1" "$2" "$STAGE" "$3" "$4" >"$body"
curl --silent --show-error --fail --output /dev/null --max-time 30 \
  --retry "${SIGNAL_RETRIES:-6}" --retry-all-errors \
  --request PUT --header 'Content-Type:' --data-binary @"$body" "$WAIT_HANDLE_URL"
say "told CloudFormation: $1"
