#!/usr/bin/env bash
# On the controller, Prometheus in agent mode: it scrapes the exporters of all nodes and the runs, and writes the metrics to the
# platform's workspace in Amazon Managed Service for Prometheus. What it scrapes is a document in the bucket, which is
# followed. Nothing here fails a node, because a cluster without metrics can train.
#   COLLECTOR_WAIT_SECONDS    how long fetching the document may take (default 60)
#   COLLECTOR_RETRY_SECONDS   pause between two tries (default 5)
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
packages=$scripts/yours/packages
installed=/opt/trainway/collector
units=/etc/systemd/system
service=trainway-collector.service
# Only for people on this node. No exporter has the port.
address=127.0.0.1:9343

if [[ -z "$SLURM_SCRAPING_S3_URI" || "$NODE_ROLE" != controller ]]; then
  # An earlier platform file may have selected it.
  systemctl disable --quiet --now trainway-collector-nodes.timer "$service" 2>/dev/null || true
  echo "this node collects no metrics, nothing to do"
  exit 0
fi

# delivered_program: write the delivered Prometheus, if this node can run it. True if it changed.
delivered_program() {
  local file
  [[ "$(uname --machine)" == x86_64 ]] || return 1
  for file in "$packages"/collector/prometheus-*.gz; do
    [[ -e "$file" ]] || continue
    if ! (cd "$packages" && grep --fixed-strings -- "${file#"$packages/"}" SHA256SUMS | sha256sum --check --status -); then
      echo "WARNING: $(basename "$file") is not what was delivered: deploy the platform again, then replace the node"
      continue
    fi
    gzip --decompress --stdout "$file" | write_file "$installed/prometheus" 0755
    return
  done
  return 1
}

changed=
for file in follow.py follow.sh; do
  ! write_file "$installed/$file" 0755 <"$scripts/collector/$file" || changed=1
done
! delivered_program || changed=1
program=$installed/prometheus
[[ -x "$program" ]] || program=$(command -v prometheus) || true
if [[ -z "$program" ]]; then
  echo "WARNING: no Prometheus was delivered for this node, and its image has none: nothing collects the platform's metrics;" \
    "deploy the platform again, then replace the node"
  exit 0
fi
# Version 2, which an image may have, knows the agent mode by the name of a feature.
# https://prometheus.io/docs/prometheus/latest/migration/ (read 2026-11-27)
agent=--agent
version=$("$program" --version 2>&1 || true)
[[ "$version" != *"version 2."* ]] || agent=--enable-feature=agent
# Root without capabilities, because with prefixes of teams only root reaches the metadata service, which has the credentials of
# the node's role. What is not written within an hour is dropped, so that the disk does not fill.
! write_file "$units/$service" 0644 <<EOF || changed=1
[Unit]
Description=Collector of the platform's metrics
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=$program $agent --config.file=$installed/prometheus.json --web.listen-address=$address \\
  --storage.agent.path=/var/lib/trainway-collector --storage.agent.retention.max-time=1h --log.level=warn
ExecReload=/bin/kill -HUP \$MAINPID
StateDirectory=trainway-collector
StateDirectoryMode=0700
WorkingDirectory=/var/lib/trainway-collector
CapabilityBoundingSet=
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectHome=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
LimitNOFILE=65536
MemoryMax=4G
CPUQuota=200%
Nice=10
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
EOF
# Slurm does not list these. A login node that replaces this one is scraped once this step runs again.
heads=$(python3 "$scripts/node_facts.py" --cluster "${SAGEMAKER_RESOURCE_CONFIG_PATH:-/opt/ml/config/resource_config.json}" \
  "$scripts/parameters.json" | python3 -c 'import json, sys
nodes = json.load(sys.stdin)["nodes"]
print(*("{role}={name}={address}".format(**each) for each in nodes if each["role"] != "compute"))')
read -r -a heads <<<"$heads"
! write_file "$units/trainway-collector-nodes.service" 0644 <<EOF || changed=1
[Unit]
Description=Nodes that the collector of metrics scrapes
After=network-online.target

[Service]
Type=oneshot
ExecStart=/usr/bin/env bash $installed/follow.sh $SLURM_SCRAPING_S3_URI $SLURM_SCRAPING_REGION ${heads[*]}
TimeoutStartSec=300
EOF
! write_file "$units/trainway-collector-nodes.timer" 0644 < <(two_minute_timer "Nodes that the collector scrapes") || changed=1
if [[ -n "$changed" ]]; then
  systemctl daemon-reload
  systemctl try-restart "$service" || true
fi
systemctl enable --quiet --now trainway-collector-nodes.timer
if ! wait_until "${COLLECTOR_WAIT_SECONDS:-60}" "${COLLECTOR_RETRY_SECONDS:-5}" \
  systemctl start trainway-collector-nodes.service; then
  echo "WARNING: what is scraped is not known yet: the node's role must be let read $SLURM_SCRAPING_S3_URI;" \
    "\`journalctl -u trainway-collector-nodes\` says why, and tries again every two minutes"
elif systemctl is-active --quiet "$service"; then
  echo "the metrics of all nodes are collected, and the nodes followed every two minutes"
else
  echo "WARNING: the collector of metrics does not run; \`journalctl -u $service\` says why"
fi
