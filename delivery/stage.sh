#!/usr/bin/env bash
# The one entry point of every CodeBuild stage: `bash delivery/stage.sh NAME` runs delivery/NAME.sh with its output kept, and
# reports how it ended to CloudFormation, also when it is killed or runs out of time. CodePipeline runs a stage that fails once
# more. The first failure of a run is therefore kept and not reported, unless no second attempt could end better.
#
#   WAIT_HANDLE_URL         presigned URL of the stage's WaitConditionHandle; empty: nothing is reported
#   STAGE_TIMEOUT_SECONDS   time limit; must be below the CodeBuild project's own, whose end leaves no time to report (default 3000)
#   STAGE_KILL_SECONDS      how long the stage may take to end after the limit (default 30)
#   STAGE_RUN               ID of the pipeline's execution, which its attempts share; empty: there is one attempt
#   STAGE_ATTEMPTS          s3://bucket/prefix that keeps how the earlier attempt ended; required with STAGE_RUN
# and the variables that delivery/NAME.sh names.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export STAGE=${1:-}
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
[[ "$STAGE" =~ ^[a-z]+$ && -f "$here/$STAGE.sh" ]] || fail "usage: stage.sh scripts|base|additions|image|mirror|cluster|autoscaling|squash"

# keep failed|told: what the next attempt of this run finds. Fails where the bucket cannot be written.
keep() {
  printf '%s %s' "${STAGE_RUN:-}" "$1" | aws s3 cp - "${STAGE_ATTEMPTS:-}/$STAGE" --only-show-errors
}

# hint_of LOG: prints what a stage that failed lacks of an organization's network, as far as its log says so.
hint_of() {
  local untrusted='certificate[ _]verif(y|ication)[ _]failed|self.signed certificate|signed by unknown authority'
  local refused='CONNECT tunnel failed|Tunnel connection failed|proxyconnect tcp|Could not resolve proxy|ProxyError'
  if grep --quiet --ignore-case --extended-regexp "$untrusted|SSL certificate problem" "$1"; then
    say "error: the certificate of a server is not trusted. If your organization's authority signed it, put the authority's" \
      "certificate into lifecycle_scripts/yours/certificates and deploy again"
  elif grep --quiet --ignore-case --extended-regexp "$refused" "$1"; then
    say "error: the proxy of network.proxy does not answer or refuses the connection. Correct network.proxy, let the proxy" \
      "pass what the log names, or add the host to network.proxy.no_proxy"
  fi
}

earlier=
if [[ -n "${STAGE_RUN:-}" ]]; then
  require STAGE_ATTEMPTS
  # Nothing is there before the first failure of the stage.
  earlier=$(aws s3 cp "$STAGE_ATTEMPTS/$STAGE" - --only-show-errors 2>/dev/null || true)
fi
if [[ -n "$earlier" && "$earlier" == "$STAGE_RUN told" ]]; then
  # A person who retries the stage later runs it.
  keep failed || true
  fail "CloudFormation was told that the earlier attempt failed, and that no retry would help"
fi

limit=${STAGE_TIMEOUT_SECONDS:-3000}
work=$(mktemp -d)
log=$work/log
export STAGE_DATA_FILE=$work/data
touch "$log" "$STAGE_DATA_FILE"
# A file and a follower instead of a pipe: bash would run no trap while it waits for the end of a pipeline.
# The follower prints what is left once the process that it watches has ended.
sleep infinity &
watched=$!
disown "$watched" # bash would print a line about its end
tail -n +1 --sleep-interval=0.1 --pid="$watched" -f "$log" &
follower=$!

end() {
  local status=$1 reason=$2 outcome=0
  kill "$watched" 2>/dev/null || true
  wait "$follower" || true
  if [[ -n "${WAIT_HANDLE_URL:-}" && "$status" != RETRY ]]; then
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
  [[ -z "${STAGE_RUN:-}" ]] || keep told || true
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
hint=$(hint_of "$log")
[[ -z "$hint" ]] || printf '%s\n' "$hint" >>"$log"
reason="stage $STAGE ended with status $code"
lost='' # whether a second attempt is
if ((code == 124 || code == 137)); then
  lost=yes
  reason="stage $STAGE ran past its limit of $limit seconds"
elif ((code == REFUSED)); then
  lost=yes
fi
if [[ -n "${STAGE_RUN:-}" && "$earlier" == "$STAGE_RUN failed" ]]; then
  reason="$reason, as its first attempt did"
elif [[ -n "${STAGE_RUN:-}" && -z "$lost" ]] && keep failed; then
  end RETRY "$reason"
  say "$reason; CodePipeline runs it once more" >&2
  exit "$code"
fi
end FAILURE "$reason" || true
[[ -z "${STAGE_RUN:-}" || -z "$lost" ]] || keep told || true
exit "$code"
