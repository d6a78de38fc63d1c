#!/usr/bin/env bash
# The one entry point of every CodeBuild stage: `bash delivery/stage.sh NAME` runs delivery/NAME.sh with its output kept, and
# always reports how it ended to CloudFormation, also when it is killed or runs out of time.
#
#   WAIT_HANDLE_URL         presigned URL of the stage's WaitConditionHandle; empty: nothing is reported
#   STAGE_TIMEOUT_SECONDS   time limit; must be below the CodeBuild project's own, whose end leaves no time to report (default 3000)
#   STAGE_KILL_SECONDS      how long the stage may take to end after the limit (default 30)
# and the variables that delivery/NAME.sh names.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export STAGE=${1:-}
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
[[ "$STAGE" =~ ^[a-z]+$ && -f "$here/$STAGE.sh" ]] || fail "usage: stage.sh scripts|base|image|mirror|cluster|autoscaling|squash"

limit=${STAGE_TIMEOUT_SECONDS:-3000}
work=$(mktemp -d)
log=$work/log
export STAGE_DATA_FILE=$work/data
touch "$log" "$STAGE_DATA_FILE"
# A file and a follower instead of a pipe: bash would run no trap while it waits for the end of a pipeline.
tail -n +1 -f "$log" &
follower=$!

end() {
  local status=$1 reason=$2 outcome=0
  sleep 0.2 # lets the follower print the last lines
  kill "$follower" 2>/dev/null || true
  if [[ -n "${WAIT_HANDLE_URL:-}" ]]; then
    bash "$here/signal.sh" "$status" "$reason" "$log" "$STAGE_DATA_FILE" || outcome=1
  fi
  rm -rf "$work"
  return "$outcome"
}

child=
# shellcheck disable=SC2329 # called by the traps below
interrupted() {
  trap - TERM INT HUP
  [[ -z "$child" ]] || kill -TERM "$child" 2>/dev/null || true
  end FAILURE "stage $STAGE was stopped by signal $1" || true
  exit 143
}
trap 'interrupted TERM' TERM
trap 'interrupted INT' INT
trap 'interrupted HUP' HUP

timeout --kill-after="${STAGE_KILL_SECONDS:-30}" "$limit" bash "$here/$STAGE.sh" >>"$log" 2>&1 &
child=$!
code=0
wait "$child" || code=$?
trap - TERM INT HUP

if ((code == 0)); then
  end SUCCESS "stage $STAGE" || fail "the stage ended well, but CloudFormation could not be told"
  exit 0
fi
reason="stage $STAGE ended with status $code"
if ((code == 124 || code == 137)); then
  reason="stage $STAGE ran past its limit of $limit seconds"
fi
end FAILURE "$reason" || true
exit "$code"
