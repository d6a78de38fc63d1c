#!/usr/bin/env bash
# Containers: images on the large disk, and enroot and pyxis for jobs that run in a container.
#   CONTAINERS   required: a node without enroot and pyxis fails | wanted: it warns and runs other jobs | none: not installed
set -euo pipefail

parts=$(cd "$(dirname "${BASH_SOURCE[0]}")/../containers" && pwd)

bash "$parts/engines.sh"
if [[ "$ORCHESTRATOR" != hyperpod-slurm ]]; then
  exit 0
fi
case $CONTAINERS in
  required)
    bash "$parts/packages.sh"
    bash "$parts/enroot.sh"
    bash "$parts/pyxis.sh"
    ;;
  wanted)
    for part in packages enroot pyxis; do
      if ! said=$(bash "$parts/$part.sh" 2>&1); then
        echo "WARNING: jobs in an image cannot run on this node: ${said##*$'\n'}"
        exit 0
      fi
      echo "$said"
    done
    ;;
  *)
    if command -v enroot >/dev/null; then
      bash "$parts/enroot.sh"
    else
      echo "slurm.containers is false, and the image has no enroot"
    fi
    ;;
esac
