"""TCP ports of the metrics exporters that Prometheus scrapes."""

from __future__ import annotations

# Local rank 0 of a run listens on this port on each node. OpenTelemetry's Prometheus exporters use the same port:
# https://opentelemetry.io/docs/specs/otel/metrics/sdk_exporters/prometheus/ (read 2026-11-25)
RUN_METRICS_PORT = 9464
# lifecycle_scripts/steps/50-exporters.sh has the same ports for Slurm nodes, and a test compares them. The charts of
# node_exporter and dcgm-exporter have 9100 and 9400 as their default ports:
# https://github.com/prometheus-community/helm-charts/blob/main/charts/prometheus-node-exporter/values.yaml
# https://github.com/NVIDIA/dcgm-exporter/blob/4.5.3-4.8.2/deployment/values.yaml (both read 2026-11-27)
NODE_METRICS_PORT, EFA_METRICS_PORT, DCGM_METRICS_PORT, SLURM_METRICS_PORT = 9100, 9109, 9400, 9341
# https://github.com/prometheus-community/helm-charts/blob/main/charts/kube-state-metrics/values.yaml (read 2026-11-27)
STATE_METRICS_PORT = 8080
# metrics.bindAddress in delivery/values/kueue.yaml.
KUEUE_METRICS_PORT = 8443
