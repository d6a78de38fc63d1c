#!/usr/bin/env bash
# Containers: images on the disk for them, and where `slurm.containers` asks for it, enroot and pyxis for jobs that run in one.
set -euo pipefail

parts=$(cd "$(dirname "${BASH_SOURCE[0]}")/../containers" && pwd)

bash "$parts/engines.sh"
if [[ "$ORCHESTRATOR" != hyperpod-slurm ]]; then
  exit 0
fi
if [[ "$CONTAINERS" == true ]]; then
  bash "$parts/packages.sh"
elif ! command -v enroot >/dev/null; then
  echo "nobody asked for enroot and pyxis (slurm.containers), and the image has none"
  exit 0
fi
bash "$parts/enroot.sh"
if [[ "$CONTAINERS" == true ]]; then
  bash "$parts/pyxis.sh"
fi
