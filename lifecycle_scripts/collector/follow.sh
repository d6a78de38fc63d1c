#!/usr/bin/env bash
# Fetch what is scraped, list the nodes for it, and run the collector with it: `follow.sh S3_URI REGION HEAD...`. systemd runs
# this regularly on the controller, so that a node that comes or goes, or a new node group, requires no new controller.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH=$PATH:/usr/sbin:/sbin:/usr/local/bin
service=trainway-collector.service
document=$(mktemp)
trap 'rm -f "$document"' EXIT

aws s3 cp "$1" "$document" --region "$2" --only-show-errors
case $(python3 "$here/follow.py" "$document" "$here" "${@:3}") in
  nothing)
    # The key was removed from the platform file, and the workspace with it.
    systemctl disable --quiet --now "$service"
    ;;
  changed)
    systemctl enable --quiet "$service"
    # Prometheus keeps its configuration if it does not take the new one.
    systemctl reload-or-restart "$service"
    ;;
  same) systemctl enable --quiet --now "$service" ;;
esac
