#!/usr/bin/env bash
# trainway-venv [NAME]: create a virtual environment of your own on the shared file system, with the image's Python:
# /fsx/users/<user>/venvs/NAME. An existing one is kept, and an unfinished one is completed.
#   TRAINWAY_VENVS   another directory for the environments
set -euo pipefail

name=${1:-default}
if (($# > 1)) || [[ ! "$name" =~ ^[A-Za-z0-9_][A-Za-z0-9._-]*$ ]]; then
  echo "usage: trainway-venv [NAME], of letters, digits, dots, hyphens and underscores; default: default" >&2
  exit 2
fi
# A login node can have other processors than the nodes that run jobs. `Arch` is what slurmd reports.
nodes=$(scontrol show node --oneliner 2>/dev/null | grep --only-matching 'Arch=[^ ]*' | sort --unique) || nodes=""
if [[ -n "$nodes" && $'\n'"$nodes"$'\n' != *$'\n'"Arch=$(uname -m)"$'\n'* ]]; then
  echo "this node has processors of $(uname -m), and compute nodes of ${nodes#Arch=}: run \`srun trainway-venv $name\`" >&2
  exit 1
fi
directory=${TRAINWAY_VENVS:-/fsx/users/$(id -un)/venvs}
place=$directory/$name
# The last file that is written. An environment cannot be moved, so it is created in its final location.
complete=$place/.trainway-complete

if ! said=$(mkdir -p "$place" 2>&1); then
  echo "$place cannot be made: ${said##*: }; TRAINWAY_VENVS=DIRECTORY puts it elsewhere" >&2
  exit 1
fi
exec {lock}>"$directory/.$name.lock"
if ! flock --wait 300 "$lock"; then
  echo "$place is being made elsewhere for five minutes now; \`rm $directory/.$name.lock\` if it is not" >&2
  exit 1
fi
if [[ ! -e "$complete" ]]; then
  if ! said=$(python3 -m venv --clear "$place" 2>&1); then
    echo "$said" >&2
    echo "$place is not made, the lines above say why; python3 -m venv needs the image's package python3-venv" >&2
    exit 1
  fi
  touch "$complete"
fi
echo "source $place/bin/activate                                 # here"
echo "trainway launch job.yaml --target slurm --environment $place   # in a job, with \`training\` installed in it"
