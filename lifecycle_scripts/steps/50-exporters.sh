#!/usr/bin/env bash
# Metrics for Prometheus, on the node's own address, of Linux, EFA, NVIDIA GPUs, and Slurm. docs/node-metrics.md lists
# them. Linux's come from Prometheus' node_exporter, which the platform delivered or the image has. The others come from
# lifecycle_scripts/exporters. Nothing here fails a node, because a node without metrics can train.
#   EXPORTER_WAIT_SECONDS   how long an exporter may take to answer (default 15)
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# AWS's exporters have these ports too:
# https://github.com/awslabs/awsome-distributed-ai/tree/main/1.architectures/5.sagemaker-hyperpod/LifecycleScripts/base-config/observability
# (read 2026-11-22)
declare -A ports=([node]=9100 [efa]=9109 [dcgm]=9400 [slurm]=9341)
unit=/etc/systemd/system/trainway-exporter@.service
of_node=/etc/systemd/system/trainway-exporter@node.service.d/node_exporter.conf
installed=/opt/trainway/exporters
packages=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/yours/packages
# File systems that node_exporter excludes by default, and network file systems, on which a query may hang.
not_local='autofs|binfmt_misc|bpf|ceph|cgroup2?|cifs|configfs|debugfs|devpts|devtmpfs|fuse.*|hugetlbfs|iso9660|lustre|mqueue'
not_local+='|nfs4?|nsfs|overlay|proc|procfs|pstore|rpc_pipefs|securityfs|selinuxfs|squashfs|sysfs|tracefs'

# applies COLLECTOR: return whether this node has the source of the collector.
applies() {
  case $1 in
    node) [[ -n "$node_exporter" ]] ;;
    efa) compgen -G '/sys/class/infiniband/*' >/dev/null ;;
    dcgm) compgen -G '/proc/driver/nvidia/gpus/*' >/dev/null && command -v dcgmi >/dev/null ;;
    slurm) [[ "$NODE_ROLE" == controller ]] ;;
  esac
}

answers() {
  python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=20)' \
    "http://$NODE_ADDRESS:${ports[$1]}/metrics" 2>/dev/null
}

if [[ "$ORCHESTRATOR" != hyperpod-slurm ]]; then
  echo "under Kubernetes HyperPod's observability add-on has exporters, nothing to do"
  exit 0
fi
if [[ "$EXPORTERS" != true ]]; then
  # An earlier platform file may have selected them.
  systemctl disable --quiet --now trainway-exporter@{node,efa,dcgm,slurm}.service 2>/dev/null || true
  echo "exporters are switched off in the platform file (slurm.exporters), nothing to do"
  exit 0
fi

# is_outdated SERVICE: return whether it runs, and its program has changed since it started.
is_outdated() {
  local since
  # Compare microseconds, because the files are written in the same second.
  since=$(systemctl show --timestamp=us --value --property=ActiveEnterTimestamp "$1")
  systemctl is-active --quiet "$1" && [[ -n "$(find "$installed" "${unit%.service}"* -type f -newermt "$since" -print -quit)" ]]
}

# installs FILE AS
installs() {
  put_file "$2" 0644 <"$1"
}

# delivered_node_exporter: print the delivered package of node_exporter for this release and processor, if any.
delivered_node_exporter() {
  local release file
  release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  for file in "$packages/exporters/$release"/prometheus-node-exporter_*.deb; do
    if [[ -e "$file" && "$(dpkg-deb --field "$file" Architecture)" == "$(dpkg --print-architecture)" ]]; then
      echo "$file"
      return
    fi
  done
}

# takes_program PACKAGE: install only the package's program, because its unit would listen on every address of the node.
takes_program() {
  if ! (cd "$packages" && grep --fixed-strings -- "${1#"$packages/"}" SHA256SUMS | sha256sum --check --status -); then
    echo "WARNING: $(basename "$1") is not what was delivered: deploy the platform again, then replace the node"
    return 1
  fi
  dpkg-deb --fsys-tarfile "$1" | tar --extract --to-stdout ./usr/bin/prometheus-node-exporter |
    put_file "$installed/node_exporter" 0755
}

for file in "$(dirname "${BASH_SOURCE[0]}")"/../exporters/*.py; do
  installs "$file" "$installed/$(basename "$file")"
done
# A system user that can read the node and write nothing. munge's socket lets Slurm's commands run as any user.
write_file "$unit" 0644 <<EOF && echo "wrote $unit"
[Unit]
Description=Metrics of this node for Prometheus: %i
After=network-online.target munge.service nvidia-dcgm.service
Wants=network-online.target

[Service]
ExecStart=/usr/bin/env python3 $installed/exporter.py %i $NODE_ADDRESS \${PORT}
EnvironmentFile=/opt/trainway/exporters/%i.port
DynamicUser=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=no
NoNewPrivileges=yes
CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
MemoryMax=512M
CPUQuota=50%
Nice=10
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
EOF
node_exporter=$(command -v prometheus-node-exporter node_exporter | head -n 1) || true
package=$(delivered_node_exporter)
if [[ -n "$package" ]] && takes_program "$package"; then
  node_exporter=$installed/node_exporter
fi
if [[ -n "$node_exporter" ]]; then
  # EFA's counters have an exporter of their own. Some of node_exporter's collectors query the kernel by netlink.
  put_file "$of_node" 0644 <<EOF
[Service]
ExecStart=
ExecStart=$node_exporter --web.listen-address=$NODE_ADDRESS:\${PORT} --no-collector.infiniband \\
  --collector.filesystem.fs-types-exclude=^($not_local)\$\$
RestrictAddressFamilies=AF_NETLINK
EOF
else
  echo "WARNING: no node_exporter was delivered for this node's release and processor, and its image has none: it has no" \
    "metrics of Linux; put node_exporter into the image, or switch off slurm.exporters"
fi
if applies dcgm && ! systemctl is-active --quiet nvidia-dcgm; then
  systemctl enable --quiet --now nvidia-dcgm ||
    echo "WARNING: nvidia-dcgm does not start; \`journalctl -u nvidia-dcgm\` says why"
fi
# An interrupted run may not have reached this.
systemctl daemon-reload
running=()
for collector in node efa dcgm slurm; do
  applies "$collector" || continue
  service=trainway-exporter@$collector.service
  put_file "$installed/$collector.port" 0644 <<<"PORT=${ports[$collector]}"
  if is_outdated "$service"; then
    systemctl restart "$service" || true
  fi
  if ! systemctl is-enabled --quiet "$service" || ! systemctl is-active --quiet "$service"; then
    systemctl enable --quiet --now "$service" || true
  fi
  if wait_until "${EXPORTER_WAIT_SECONDS:-15}" 0.5 answers "$collector"; then
    running+=("$collector:${ports[$collector]}")
  else
    echo "WARNING: the exporter of $collector does not answer on $NODE_ADDRESS:${ports[$collector]};" \
      "\`journalctl -u $service\` says why"
  fi
done
echo "metrics are at $NODE_ADDRESS: ${running[*]:-none}"
