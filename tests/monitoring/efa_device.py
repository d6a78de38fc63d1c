"""An EFA device in a directory with the layout of /sys."""

from __future__ import annotations

from pathlib import Path

COUNTERS = ("tx_bytes", "rx_bytes", "rdma_read_bytes", "rdma_write_bytes", "rx_drops", "retrans_timeout_events")


def make_efa_device(directory: Path) -> Path:
    """Create a device whose counters are all 7, and return the directory of the device below `class`."""
    driver, device = directory / "bus/efa", directory / "class/rdmap0s6"
    counters = device / "ports/1/hw_counters"
    for each in (driver, counters, device / "device"):
        each.mkdir(parents=True)
    (device / "device/driver").symlink_to(driver)
    for name in COUNTERS:
        (counters / name).write_text("7\n")
    return device
