"""The pods of a collected cluster, which answer scrapes at loopback addresses.

node_exporter, the exporter of EFA, and the exporter of a run are the real ones. The answers of DCGM's exporter,
kube-state-metrics, and Kueue are in the forms that their sources give them.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.monitoring.efa_device import make_efa_device
from tests.ports import own_loopback_network
from tests.prometheus import program
from tests.training.test_exporter import DESCRIPTION, STEP, STRAGGLER
from trainway.manifests.chart_values import chart_values
from trainway.manifests.efa_exporter import efa_exporter
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.platform import Platform

# The first numbers of the pods' addresses.
NETWORK = own_loopback_network()
NODE = "ip-10-0-16-4.us-west-2.compute.internal"
# https://github.com/NVIDIA/dcgm-exporter/blob/4.5.3-4.8.2/internal/pkg/rendermetrics/render_metrics.go and
# https://github.com/NVIDIA/dcgm-exporter/blob/4.5.3-4.8.2/internal/pkg/transformation/kubernetes.go (read 2026-11-27)
GPU = (
    'gpu="0",UUID="GPU-1",pci_bus_id="00000000:53:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",'
    f'Hostname="{NODE}",DCGM_FI_DRIVER_VERSION="580.95.05",container="node",namespace="research",pod="llama-0"'
)
DCGM = Path(__file__).with_name("dcgm_4.5.3.txt").read_text(encoding="utf-8").replace("LABELS", GPU)
# https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/cluster/node-metrics.md
# https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/pod-metrics.md (read 2026-11-27)
STATE = f"""\
# TYPE kube_node_status_condition gauge
kube_node_status_condition{{node="{NODE}",condition="Ready",status="true"}} 1
kube_node_status_condition{{node="{NODE}",condition="Ready",status="false"}} 0
# TYPE kube_pod_status_phase gauge
kube_pod_status_phase{{namespace="research",pod="llama-0",uid="1",phase="Running"}} 1
# TYPE go_goroutines gauge
go_goroutines 12
"""
# https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/site/content/en/docs/reference/metrics.md (read 2026-11-26)
KUEUE = """\
# TYPE kueue_pending_workloads gauge
kueue_pending_workloads{cluster_queue="research",status="active"} 2
# TYPE kueue_admitted_active_workloads gauge
kueue_admitted_active_workloads{cluster_queue="research"} 1
# TYPE kueue_cluster_queue_nominal_quota gauge
kueue_cluster_queue_nominal_quota{cohort="c",cluster_queue="research",flavor="p5",resource="nvidia.com/gpu"} 32
# TYPE kueue_cluster_queue_resource_usage gauge
kueue_cluster_queue_resource_usage{cohort="c",cluster_queue="research",flavor="p5",resource="nvidia.com/gpu"} 8
"""
# The pods by the last number of their loopback address: namespace, name, and labels.
PODS: dict[int, tuple[str, str, dict[str, str]]] = {
    11: ("prometheus-node-exporter", "prometheus-node-exporter-x", {}),
    12: ("kube-system", "dcgm-exporter-x", {"app.kubernetes.io/name": "dcgm-exporter"}),
    13: ("trainway-metrics", "efa-exporter-x", {"app.kubernetes.io/name": "efa-exporter"}),
    14: ("kube-state-metrics", "kube-state-metrics-x", {}),
    15: ("kueue-system", "kueue-controller-manager-x", {"app.kubernetes.io/name": "kueue"}),
    16: ("research", "llama-0", {"trainway.dev/run": "llama"}),
    # Nothing listens for these, so that a configuration which keeps them has a target that is down.
    21: ("research", "notebook", {}),
    22: ("kube-system", "coredns-x", {"app.kubernetes.io/name": "coredns"}),
    23: ("default", "stranger", {"trainway.dev/run": "x"}),
}
Answer = Callable[[str, Mapping[str, str]], str]


def discovered() -> list[dict[str, Any]]:
    """Return the targets and labels that Prometheus discovers with the role pod, in the form of file_sd_configs.

    Each pod declares two ports, and so is discovered twice.
    https://prometheus.io/docs/prometheus/latest/configuration/configuration/#pod (read 2026-11-27)
    """
    found = []
    for number, (namespace, name, labels) in PODS.items():
        for port in (80, 8081):
            of_pod = {
                "namespace": namespace,
                "pod_name": name,
                "pod_ip": f"{NETWORK}.{number}",
                "pod_phase": "Running",
                "pod_node_name": NODE,
                "pod_container_port_number": str(port),
                **{f"pod_label_{re.sub('[^a-zA-Z0-9_]', '_', label)}": value for label, value in labels.items()},
            }
            meta = {f"__meta_kubernetes_{label}": value for label, value in of_pod.items()}
            found.append({"targets": [f"{NETWORK}.{number}:{port}"], "labels": meta})
    return found


@contextlib.contextmanager
def served(answer: Answer, address: str, port: int, certificate: Path | None = None) -> Iterator[None]:
    """Serve texts by path over HTTP, or over HTTPS with a certificate. An empty text gives the status 401."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answer(self.path, dict(self.headers)).encode()
            self.send_response(200 if body else 401)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer((address, port), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def exporter_of_efa(platform: Platform, directory: Path, address: str) -> list[str]:
    """Return the command of the DaemonSet's container with the ConfigMap's files, and a /sys with one EFA device."""
    config_map, daemon_set = efa_exporter(platform, load_catalogue())[1:3]
    for name, text in config_map["data"].items():
        (directory / name).write_text(text, encoding="utf-8")
    device = make_efa_device(directory)
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    python, script, *arguments = container["command"]
    assert (python, Path(script).name) == ("python3", "exporter.py")
    arguments[1] = address
    code = f"import sys, pathlib, efa, exporter; efa.DEVICES = pathlib.Path({str(device.parent)!r}); exporter.main()"
    return [sys.executable, "-c", code, *arguments]


def of_dcgm(platform: Platform) -> str:
    """Return the answer of DCGM's exporter, with the fields that the values of its chart list."""
    listed = chart_values(platform, load_catalogue())["dcgm-exporter"]["customMetrics"]
    fields = {line.partition(",")[0] for line in listed.splitlines()}
    lines = DCGM.splitlines(keepends=True)
    return "".join(line for line in lines if fields & set(re.findall(r"DCGM_FI_\w+", line.partition("{")[0])))


@contextlib.contextmanager
def cluster(platform: Platform, directory: Path, token: str) -> Iterator[None]:
    """Run the exporters of the pods. The stand-in for Kueue requires the token."""
    from training.observe.exporter import Exporter

    pem = directory / "tls.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=kueue"]
    subprocess.run([*request, "-keyout", pem, "-out", directory / "c.pem"], check=True, capture_output=True)
    pem.write_text(pem.read_text() + (directory / "c.pem").read_text())
    efa = directory / "efa"
    efa.mkdir()
    commands = [
        [program("prometheus-node-exporter"), f"--web.listen-address={NETWORK}.11:9100", "--no-collector.systemd"],
        exporter_of_efa(platform, efa, f"{NETWORK}.13"),
    ]

    def of_kueue(_: str, headers: Mapping[str, str]) -> str:
        return KUEUE if headers.get("Authorization") == f"Bearer {token}" else ""

    with contextlib.ExitStack() as running:
        for command in commands:
            process = running.enter_context(subprocess.Popen(command, cwd=efa))
            running.callback(process.kill)
        running.enter_context(served(lambda *_: of_dcgm(platform), f"{NETWORK}.12", 9400))
        running.enter_context(served(lambda *_: STATE, f"{NETWORK}.14", 8080))
        running.enter_context(served(of_kueue, f"{NETWORK}.15", 8443, pem))
        run = Exporter(f"{NETWORK}.16", 9464, DESCRIPTION, 50, resumed_from=None)
        running.callback(run.close)
        run.step(STEP)
        run.stragglers([STRAGGLER])
        yield
