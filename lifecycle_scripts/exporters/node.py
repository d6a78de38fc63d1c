"""What Linux says of a node, by the names, types and labels of Prometheus' node_exporter.

As many of them as a training node's dashboards and alerts need; a test compares both on one machine.
https://github.com/prometheus/node_exporter/tree/master/collector (read 2026-11-22)
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

Samples = list[tuple[dict[str, str], float]]
Family = tuple[str, str, str, Samples]

FRESH_SECONDS = 0.0
PROC = Path("/proc")
# Linux counts time in ticks, of which user space sees this many a second.
TICKS = os.sysconf("SC_CLK_TCK")
SECTOR_BYTES = 512
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
# On disks of the node's own. A file system of the network may hang whoever asks how full it is.
LOCAL = ("btrfs", "ext4", "tmpfs", "vfat", "xfs")
INTERFACE = {0: "receive_bytes", 1: "receive_packets", 2: "receive_errs", 3: "receive_drop"}
INTERFACE |= {8: "transmit_bytes", 9: "transmit_packets", 10: "transmit_errs", 11: "transmit_drop"}
# Of a device's numbers in diskstats: which, its name, and what one of it is.
DISK = (
    (0, "reads_completed_total", 1.0),
    (2, "read_bytes_total", SECTOR_BYTES),
    (4, "writes_completed_total", 1.0),
    (6, "written_bytes_total", SECTOR_BYTES),
    (9, "io_time_seconds_total", 0.001),
)
NO_DISK = re.compile(r"^(ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$")


def collect() -> list[Family]:
    """Returns the families of every part; raises OSError where /proc is not what it is on Linux."""
    return [*processors(), *memory(), *load(), *interfaces(), *disks(), *file_systems(), *kernel()]


def processors() -> list[Family]:
    samples: Samples = []
    families: list[Family] = []
    for line in (PROC / "stat").read_text().splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            pairs = zip(MODES, values, strict=False)
            samples += [({"cpu": name[3:], "mode": mode}, int(value) / TICKS) for mode, value in pairs]
        elif name in ("procs_running", "procs_blocked"):
            families.append((f"node_{name}", "gauge", f"{name} in /proc/stat.", [({}, float(values[0]))]))
        elif name == "btime":
            about = "When the node started, in seconds since 1970."
            families.append(("node_boot_time_seconds", "gauge", about, [({}, float(values[0]))]))
        elif name == "ctxt":
            families.append(("node_context_switches_total", "counter", "Context switches.", [({}, float(values[0]))]))
    return [("node_cpu_seconds_total", "counter", "Seconds that each CPU spent in each mode.", samples), *families]


def memory() -> list[Family]:
    families: list[Family] = []
    for line in (PROC / "meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        size, *unit = value.split()
        # Active(anon) is Active_anon there.
        name = re.sub(r"[()]+", "_", name).strip("_") + ("_bytes" if unit else "")
        amount = float(size) * (1024 if unit else 1)
        families.append((f"node_memory_{name}", "gauge", f"{line.partition(':')[0]} in /proc/meminfo.", [({}, amount)]))
    return families


def load() -> list[Family]:
    averages = (PROC / "loadavg").read_text().split()[:3]
    named = zip((1, 5, 15), averages, strict=True)
    return [
        (f"node_load{minutes}", "gauge", f"Load average over {minutes} minutes.", [({}, float(average))])
        for minutes, average in named
    ]


def interfaces() -> list[Family]:
    samples: dict[str, Samples] = {name: [] for name in INTERFACE.values()}
    # The reader's own network: a unit's is the node's.
    for line in (PROC / "self/net/dev").read_text().splitlines()[2:]:
        device, _, values = line.partition(":")
        numbers = values.split()
        for column, name in INTERFACE.items():
            samples[name].append(({"device": device.strip()}, float(numbers[column])))
    return [
        (f"node_network_{name}_total", "counter", f"{name} of the interface.", found) for name, found in samples.items()
    ]


def disks() -> list[Family]:
    samples: dict[str, Samples] = {name: [] for _, name, _ in DISK}
    for line in (PROC / "diskstats").read_text().splitlines():
        device, *numbers = line.split()[2:]
        if not NO_DISK.match(device):
            for column, name, factor in DISK:
                samples[name].append(({"device": device}, float(numbers[column]) * factor))
    return [(f"node_disk_{name}", "counter", f"{name} of the disk.", found) for name, found in samples.items()]


def file_systems() -> list[Family]:
    kinds = ("size_bytes", "free_bytes", "avail_bytes", "files", "files_free")
    samples: dict[str, Samples] = {name: [] for name in kinds}
    seen = set()
    for line in (PROC / "self/mountinfo").read_text().splitlines():
        _, _, number, _, where, *rest = line.split()
        fstype, device, _ = rest[rest.index("-") + 1 :]
        mountpoint = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), where)
        # Mounted again below, by containers or this unit's own protection, it is no more full than it is.
        if fstype not in LOCAL or number in seen or mountpoint.startswith(("/dev", "/proc", "/sys")):
            continue
        try:
            status = os.statvfs(mountpoint)
        except OSError:
            continue
        seen.add(number)
        block, labels = status.f_frsize, {"device": device, "fstype": fstype, "mountpoint": mountpoint}
        sizes = (status.f_blocks * block, status.f_bfree * block, status.f_bavail * block)
        values = (*sizes, status.f_files, status.f_ffree)
        for name, value in zip(kinds, values, strict=True):
            samples[name].append((labels, float(value)))
    return [
        (f"node_filesystem_{name}", "gauge", f"{name} of the file system.", found) for name, found in samples.items()
    ]


def kernel() -> list[Family]:
    allocated, _, most = (PROC / "sys/fs/file-nr").read_text().split()
    families: list[Family] = [
        ("node_filefd_allocated", "gauge", "Open files.", [({}, float(allocated))]),
        ("node_filefd_maximum", "gauge", "Files that may be open.", [({}, float(most))]),
        ("node_time_seconds", "gauge", "The node's clock, in seconds since 1970.", [({}, time.time())]),
    ]
    for line in (PROC / "vmstat").read_text().splitlines():
        name, value = line.split()
        if name in ("oom_kill", "pgmajfault"):
            families.append((f"node_vmstat_{name}", "untyped", f"{name} in /proc/vmstat.", [({}, float(value))]))
    system = os.uname()
    labels = {"sysname": system.sysname, "release": system.release, "version": system.version}
    labels |= {"machine": system.machine, "nodename": system.nodename}
    labels["domainname"] = (PROC / "sys/kernel/domainname").read_text().strip()
    families.append(("node_uname_info", "gauge", "The kernel, always 1.", [(labels, 1.0)]))
    return families
