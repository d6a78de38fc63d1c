"""Metrics of NVIDIA GPUs from DCGM, with the names and labels of NVIDIA's dcgm-exporter.

The image has DCGM. Its `dcgmi dmon` continuously prints a row for each GPU, and the last rows are the answer.
https://github.com/NVIDIA/DCGM/blob/master/dcgmi/DeviceMonitor.cpp, the fields:
https://github.com/NVIDIA/DCGM/blob/master/dcgmlib/dcgm_fields.h, and the selection of AWS's scripts:
https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/LifecycleScripts/base-config/observability/dcgm_metrics_config/dcgm-metrics-basic.csv
(read 2026-11-22)
"""

from __future__ import annotations

import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterable

Family = tuple[str, str, str, list[tuple[dict[str, str], float]]]

FRESH_SECONDS = 0.0
EVERY_SECONDS = 10.0
# By DCGM's field number: the end of the metric's name, its type, and its description.
FIELDS = {
    100: ("DEV_SM_CLOCK", "gauge", "Clock of the SMs, in MHz."),
    101: ("DEV_MEM_CLOCK", "gauge", "Clock of the memory, in MHz."),
    140: ("DEV_MEMORY_TEMP", "gauge", "Temperature of the memory, in degrees Celsius."),
    150: ("DEV_GPU_TEMP", "gauge", "Temperature of the GPU, in degrees Celsius."),
    155: ("DEV_POWER_USAGE", "gauge", "Power, in watts."),
    156: ("DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy since the driver was loaded, in millijoules."),
    202: ("DEV_PCIE_REPLAY_COUNTER", "counter", "Retries on PCIe."),
    203: ("DEV_GPU_UTIL", "gauge", "How much of the time a kernel ran, in percent."),
    204: ("DEV_MEM_COPY_UTIL", "gauge", "How much of the time memory was read or written, in percent."),
    230: ("DEV_XID_ERRORS", "gauge", "The last XID error."),
    240: ("DEV_POWER_VIOLATION", "counter", "Time of throttling because of power."),
    241: ("DEV_THERMAL_VIOLATION", "counter", "Time of throttling because of heat."),
    251: ("DEV_FB_FREE", "gauge", "Free memory, in MiB."),
    252: ("DEV_FB_USED", "gauge", "Used memory, in MiB."),
    311: ("DEV_ECC_DBE_VOL_TOTAL", "counter", "Double-bit ECC errors since the driver was loaded."),
    393: ("DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped for uncorrectable errors."),
    394: ("DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped for correctable errors."),
    395: ("DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping a row has failed."),
    429: ("DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "Retries of NVLinks."),
    439: ("DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "counter", "Recoveries of NVLinks."),
    1001: ("PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time that the graphics engine is active."),
    1004: ("PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles that the tensor pipe is active."),
    1005: ("PROF_DRAM_ACTIVE", "gauge", "Ratio of cycles that the memory interface is active."),
    1009: ("PROF_PCIE_TX_BYTES", "gauge", "Bytes a second sent over PCIe."),
    1010: ("PROF_PCIE_RX_BYTES", "gauge", "Bytes a second received over PCIe."),
}

# Values by GPU and field, the time of reading them, and the program that prints them.
_last: dict[str, dict[int, float]] = {}
_read = -float("inf")
_monitor: subprocess.Popen[str] | None = None
_names: dict[str, dict[str, str]] = {}


def rows(lines: Iterable[str]) -> Iterable[tuple[str, dict[int, float]]]:
    """Yield a GPU's number and its values, for each of its rows. Raises ValueError for another format."""
    starts: list[int] = []
    for line in lines:
        if line.startswith("#Entity"):
            # A cell begins at the position of its heading, and is empty if a value is missing.
            starts = [found.start() for found in re.finditer(r"\S+", line)][1:]
            if len(starts) != len(FIELDS):
                raise ValueError(f"dcgmi dmon has {len(starts)} columns instead of {len(FIELDS)}: {line.rstrip()}")
        elif (entity := re.match(r"GPU (\d+)\s", line)) and starts:
            cells = [line[begin:end].strip() for begin, end in zip(starts, [*starts[1:], None], strict=True)]
            values = {}
            for field, cell in zip(FIELDS, cells, strict=True):
                # N/A if a type of GPU lacks the field. A number that is too wide for its cell ends in dots.
                if re.fullmatch(r"-?\d+(\.\d+)?", cell):
                    values[field] = float(cell)
            yield entity[1], values


def names() -> dict[str, dict[str, str]]:
    """Return each GPU's labels, by its number. Raises OSError or subprocess.SubprocessError."""
    query = ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    listed = subprocess.run(query, check=True, capture_output=True, text=True, timeout=30).stdout.splitlines()
    found = {}
    for line in listed:
        index, uuid, model = (part.strip() for part in line.split(",", 2))
        labels = {"gpu": index, "UUID": uuid, "device": f"nvidia{index}", "modelName": model}
        found[index] = {**labels, "Hostname": socket.gethostname()}
    return found


def _follow(monitor: subprocess.Popen[str]) -> None:
    global _read
    assert monitor.stdout
    for gpu, values in rows(monitor.stdout):
        _last[gpu], _read = values, time.monotonic()


def collect() -> list[Family]:
    """Return the values that were printed last. Raises OSError, or RuntimeError if they are too old."""
    global _monitor, _names
    if _monitor is None or _monitor.poll() is not None:
        _names = names()
        fields = ",".join(map(str, FIELDS))
        command = ["dcgmi", "dmon", "-e", fields, "-d", str(int(EVERY_SECONDS * 1000))]
        _monitor = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=_follow, args=[_monitor], daemon=True).start()
        # Fields that are measured over time have values only from the second row on.
        time.sleep(1)
    if time.monotonic() - _read > 3 * EVERY_SECONDS:
        raise RuntimeError("dcgmi dmon prints nothing; `systemctl status nvidia-dcgm` on this node says why")
    return [
        (
            f"DCGM_FI_{name}",
            kind,
            about,
            [
                (_names.get(gpu, {"gpu": gpu}), values[field])
                for gpu, values in sorted(_last.items())
                if field in values
            ],
        )
        for field, (name, kind, about) in FIELDS.items()
    ]
