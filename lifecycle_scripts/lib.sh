# shellcheck shell=bash
# What several steps do. Sourced by them, never run.

# fail TEXT: ends the step; the text is the line that says what went wrong, why, and what to do.
fail() {
  echo "$*"
  exit 1
}

# write_file PATH MODE: makes the file hold what is on standard input. True if it changed, false if it was already so.
# The file is never seen half written, whenever the step is killed; the next run uses up what that left beside it.
write_file() {
  local path=$1 mode=$2 place new why
  place=$(dirname "$path")
  new=$place/.$(basename "$path").new
  # Where it cannot be written the step ends here: to a caller who asks whether it changed, false would be an answer.
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

# put_file PATH MODE: the same, for steps that do not ask whether it changed.
put_file() {
  write_file "$@" || true
}

# wait_until SECONDS PAUSE COMMAND...: true as soon as the command is, false after so long.
wait_until() {
  local deadline=$((SECONDS + $1)) pause=$2
  shift 2
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep "$pause"
  done
}

# scratch_layout PLACE: makes the directories that containers and jobs have on a disk. Where all users write, each has files of
# one's own: enroot keeps a user's in a directory that nobody else can read.
scratch_layout() {
  local name
  install -d -m 0711 "$1/docker" "$1/containerd" "$1/enroot" || return 1
  for name in jobs tmp enroot/cache enroot/data enroot/tmp; do
    install -d -m 1777 "$1/$name" || return 1
  done
}
