# shellcheck shell=bash
# Functions that the steps of network file systems share. Sourced by them after lib.sh, never run.
#   MOUNT_WAIT_SECONDS    how long a mount may take (default 180: the step's own limit is above it and the probe's)
#   MOUNT_RETRY_SECONDS   pause between two tries (default 5)
#   MOUNT_PROBE_SECONDS   how long a file system may take to answer (default 60)

# in_fstab SOURCE PATH TYPE OPTIONS: write the only fstab entry of the path, so that a restarted node mounts it without
# these scripts.
in_fstab() {
  local table=$NODE_ROOT/etc/fstab entry="$*" others=""
  if [[ -f "$table" ]]; then
    others=$(awk -v path="$2" '$1 ~ /^#/ || $2 != path' "$table")
  fi
  if write_file "$table" 0644 <<<"${others:+$others$'\n'}$entry 0 0"; then
    echo "$2 is in fstab"
  fi
}

# until_mounted PATH BY REMEDY COMMAND...: run the command until the path is mounted. If BY is `service`, only wait.
until_mounted() {
  local path=$1 by=$2 remedy=$3 last wait=${MOUNT_WAIT_SECONDS:-180} deadline left
  shift 3
  deadline=$((SECONDS + wait))
  until mountpoint -q "$NODE_ROOT$path"; do
    left=$((deadline - SECONDS))
    # On a busy node, the first attempt can start after the deadline. It still gets a second.
    ((left > 0)) || left=1
    if [[ "$by" == script ]]; then
      # Name resolution restarts while a node is provisioned, so the first attempts may fail.
      if last=$(timeout --kill-after=5 "$((left < 60 ? left : 60))" "$@" 2>&1); then
        echo "mounted $path"
        continue
      fi
      last=${last##*$'\n'}
      last=${last:-mount gave no answer}
    else
      last="HyperPod has not mounted it"
    fi
    ((SECONDS < deadline)) || fail "$path is not mounted after $wait s ($last); $remedy"
    sleep "${MOUNT_RETRY_SECONDS:-5}"
  done
}

# in_time COMMAND...: end the command if a file server does not answer, even if it ignores signals.
in_time() {
  timeout --kill-after=5 "${MOUNT_PROBE_SECONDS:-60}" "$@"
}

# mounted_there PATH: print the type and the source of the file system at PATH.
mounted_there() {
  findmnt --noheadings --output FSTYPE,SOURCE --mountpoint "$NODE_ROOT$1" | tail -n 1 | tr -s ' '
}

# prove_writable PATH LARGER REMEDY: test by writing, because a mount with unreachable servers looks mounted and hangs.
# LARGER is the key of the platform file for its size. REMEDY is the action if its servers do not answer.
prove_writable() {
  local path=$1 larger=$2 remedy=$3 probe error
  probe=$NODE_ROOT$path/.trainway-$(hostname)
  # shellcheck disable=SC2016 # expanded by the inner shell
  if error=$(in_time bash -c 'echo written >"$1" && [[ "$(<"$1")" == written ]] && rm "$1"' - "$probe" 2>&1); then
    echo "$path is mounted and writable"
    return
  fi
  error=${error##*$'\n'}
  case $error in
    # Under root squash this is an answer. The free space shows that all servers respond.
    *"Permission denied"*)
      if in_time df "$NODE_ROOT$path" >/dev/null 2>&1; then
        echo "$path is mounted, and root may not write to it"
        return
      fi
      ;;
    # The node starts anyway, because somebody has to delete files from a node.
    *"No space left on device"* | *"Disk quota exceeded"*)
      in_time rm -f "$probe" || true
      echo "WARNING: $path is mounted, and full: remove what nobody needs, or raise $larger in the platform file"
      return
      ;;
    *"Read-only file system"*)
      fail "$path is mounted read-only: its client was cut off, or it is being restored; look at its state in the FSx" \
        "console, then replace the node"
      ;;
  esac
  fail "$path is mounted but cannot be written within ${MOUNT_PROBE_SECONDS:-60} s: ${error:-no answer}; $remedy"
}
