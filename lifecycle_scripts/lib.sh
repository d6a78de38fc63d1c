# shellcheck shell=bash
# Functions that several steps share. Sourced by them, never run.

# fail TEXT: end the step. TEXT is the line that says what went wrong, why, and what to do.
fail() {
  echo "$*"
  exit 1
}

# write_file PATH MODE: write standard input to the file. True if it changed, false if the content was the same.
# The file is never visible half written. After a kill, the next run overwrites the temporary file.
write_file() {
  local path=$1 mode=$2 place new why
  place=$(dirname "$path")
  new=$place/.$(basename "$path").new
  # If the file cannot be written, the step ends here: a caller that asks for a change would misread false.
  if ! why=$({ mkdir -p "$place" && umask 077 && cat >"$new" && chmod "$mode" "$new"; } 2>&1); then
    rm -f "$new"
    fail "cannot write $path: ${why##*: }; \`df -h $place\` and \`mount\` on this node say what is full or read-only"
  fi
  if [[ -f "$path" && "$(stat -c %a "$path")" == "${mode#0}" ]] && cmp --silent "$new" "$path"; then
    rm "$new"
    return 1
  fi
  mv "$new" "$path"
}

# put_file PATH MODE: the same, for steps that do not check whether the file changed.
put_file() {
  write_file "$@" || true
}

# wait_until SECONDS PAUSE COMMAND...: true as soon as the command succeeds, false after SECONDS.
wait_until() {
  local deadline=$((SECONDS + $1)) pause=$2
  shift 2
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep "$pause"
  done
}

# scratch_layout PLACE: create the directories of containers and jobs on a disk. In directories that all users write to,
# each user's files are separate: enroot keeps them in a directory that nobody else can read.
scratch_layout() {
  local name
  install -d -m 0711 "$1/docker" "$1/containerd" "$1/enroot" || return 1
  for name in jobs tmp enroot/cache enroot/data enroot/tmp; do
    install -d -m 1777 "$1/$name" || return 1
  done
}

# two_minute_timer DESCRIPTION: prints a timer unit of systemd that starts its service every two minutes.
two_minute_timer() {
  cat <<EOF
[Unit]
Description=$1, every two minutes

[Timer]
OnActiveSec=2min
OnUnitInactiveSec=2min
# Spread the requests of a cluster's nodes over time.
RandomizedDelaySec=30

[Install]
WantedBy=timers.target
EOF
}
