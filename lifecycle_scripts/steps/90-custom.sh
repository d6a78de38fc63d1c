#!/usr/bin/env bash
# The team's own scripts, yours/custom.d/NN-name.sh and NN-name.py, in order. yours/custom.d/README.md says what they may do.
#   CUSTOM_LIMIT_SECONDS   limit of a script that names none itself (default 300)
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
shopt -s nullglob
scripts=("$here"/yours/custom.d/[0-9][0-9]-*.sh "$here"/yours/custom.d/[0-9][0-9]-*.py)
if ((${#scripts[@]} == 0)); then
  echo "yours/custom.d has no scripts, nothing to do"
  exit 0
fi
mapfile -t scripts < <(printf '%s\n' "${scripts[@]}" | sort)

for script in "${scripts[@]}"; do
  name=$(basename "$script")
  limit=$(sed -n '1,10s/^# limit: \([0-9]\+\) s$/\1/p' "$script" | head -n 1)
  limit=${limit:-${CUSTOM_LIMIT_SECONDS:-300}}
  # S3 keeps no file modes, so the name determines the interpreter.
  case $name in
    *.py) program=python3 ;;
    *) program=bash ;;
  esac
  code=0
  python3 "$here/limited.py" "$limit" "$name" "$program" "$script" || code=$?
  case $code in
    0)
      echo "$name is done"
      continue
      ;;
    124) why="$name ran past its limit of $limit s and was ended with all that it started" ;;
    *) why="$name ended with status $code; the lines after [$name] say why" ;;
  esac
  if [[ "$name" == *.required.* ]]; then
    fail "$why: a node must not be without it; correct yours/custom.d/$name and deploy again"
  fi
  echo "WARNING: $why"
done
