"""EFA's counters, of every port of every device, with the names of AWS's exporter.

https://github.com/awslabs/awsome-distributed-ai/blob/main/4.validation_and_observability/3.efa-node-exporter/amazon_efa_linux.go
(read 2026-11-22)
"""

from __future__ import annotations

from pathlib import Path

FRESH_SECONDS = 0.0
DEVICES = Path("/sys/class/infiniband")
# Time for which the kernel caches the counters. It is not a counter itself.
NOT_COUNTED = "lifespan"


def collect() -> list[tuple[str, str, str, list[tuple[dict[str, str], float]]]]:
    """Return a counter for each file of hw_counters, and each device. Unreadable counters are left out."""
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    devices = sorted(path for path in DEVICES.iterdir() if (path / "device/driver").resolve().name == "efa")
    for device in devices:
        for file in sorted(device.glob("ports/*/hw_counters/*")):
            try:
                value = float(file.read_text())
            except (OSError, ValueError):
                continue
            if file.name != NOT_COUNTED:
                labels = {"device": device.name, "port": file.parts[-3]}
                samples.setdefault(file.name, []).append((labels, value))
    info: list[tuple[dict[str, str], float]] = [({"device": device.name}, 1.0) for device in devices]
    counters = [
        (f"node_amazonefa_{name}", "counter", f"hw_counters/{name} of the port.", found)
        for name, found in sorted(samples.items())
    ]
    return [("node_amazonefa_info", "gauge", "An EFA device, always 1.", info), *counters]
